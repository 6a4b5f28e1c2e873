/* MPI 7.6: intercommunicators between the even and the odd ranks. With one process there is nothing to bridge. */
#include "check.h"

static int rank, size;

static void talk(MPI_Comm inter, int remote)
{
    /* The partner is the remote process of the same rank, as far as there is one. */
    int me, got = -1, n;
    MPI_Status status;
    MPI_Comm_rank(inter, &me);
    CHECK(MPI_Comm_remote_size(inter, &n) == MPI_SUCCESS && n == remote);
    if (me < remote) {
        int partner = rank % 2 ? rank - 1 : rank + 1;
        MPI_Sendrecv(&rank, 1, MPI_INT, me, 1, &got, 1, MPI_INT, MPI_ANY_SOURCE, 1, inter, &status);
        CHECK(got == partner && status.MPI_SOURCE == me);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm half, inter, copy, merged, part;
    MPI_Group group, world;
    int flag, n, remote, result;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1)
        return finish("intercommunicators");
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    remote = rank % 2 ? (size + 1) / 2 : size / 2;

    CHECK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 99, &inter) == MPI_SUCCESS);
    CHECK(MPI_Comm_test_inter(inter, &flag) == MPI_SUCCESS && flag);
    CHECK(MPI_Comm_size(inter, &n) == MPI_SUCCESS && n == size - remote);
    CHECK(MPI_Comm_rank(inter, &n) == MPI_SUCCESS && n == rank / 2);
    CHECK(MPI_Comm_remote_group(inter, &group) == MPI_SUCCESS);
    int zero = 0, translated = -1;
    MPI_Group_translate_ranks(group, 1, &zero, world, &translated);
    CHECK(translated == 1 - rank % 2);
    MPI_Group_free(&group);
    talk(inter, remote);

    CHECK(MPI_Comm_dup(inter, &copy) == MPI_SUCCESS);
    CHECK(MPI_Comm_compare(inter, copy, &result) == MPI_SUCCESS && result == MPI_CONGRUENT);
    CHECK(MPI_Comm_compare(inter, half, &result) == MPI_SUCCESS && result == MPI_UNEQUAL);
    talk(copy, remote);
    MPI_Comm_free(&copy);

    /* Beside the root nothing but MPI_PROC_NULL counts, not even the datatype. */
    int sum = 0;
    if (rank % 2 == 0) {
        int is_root = rank == 0;
        CHECK(MPI_Reduce(NULL, is_root ? &sum : NULL, is_root ? 1 : 0, is_root ? MPI_INT : MPI_BYTE, MPI_SUM,
                         is_root ? MPI_ROOT : MPI_PROC_NULL, inter) == MPI_SUCCESS);
        CHECK(!is_root || sum == remote);
    } else {
        int one = 1;
        CHECK(MPI_Reduce(&one, NULL, 1, MPI_INT, MPI_SUM, 0, inter) == MPI_SUCCESS);
    }

    /* Merged, the side that says high stands behind. */
    CHECK(MPI_Intercomm_merge(inter, rank % 2 == 0, &merged) == MPI_SUCCESS);
    MPI_Comm_rank(merged, &n);
    CHECK(n == (rank % 2 ? rank / 2 : size / 2 + rank / 2));
    MPI_Comm_size(merged, &n);
    CHECK(n == size);
    MPI_Comm_free(&merged);
    CHECK(MPI_Intercomm_merge(inter, 0, &merged) == MPI_SUCCESS);
    MPI_Comm_size(merged, &n);
    CHECK(n == size);
    MPI_Comm_free(&merged);

    /* A split pairs the processes of the same color. */
    int mine = rank / 2;
    CHECK(MPI_Comm_split(inter, mine, 0, &part) == MPI_SUCCESS);
    if (mine < remote) {
        int got = -1;
        MPI_Comm_remote_size(part, &n);
        CHECK(n == 1);
        MPI_Comm_size(part, &n);
        CHECK(n == 1);
        MPI_Sendrecv(&rank, 1, MPI_INT, 0, 2, &got, 1, MPI_INT, 0, 2, part, MPI_STATUS_IGNORE);
        CHECK(got == (rank % 2 ? rank - 1 : rank + 1));
        MPI_Comm_free(&part);
    } else {
        CHECK(part == MPI_COMM_NULL);
    }

    /* The first process of each side. */
    MPI_Comm_group(inter, &group);
    MPI_Group first;
    MPI_Group_incl(group, 1, &zero, &first);
    CHECK(MPI_Comm_create(inter, first, &part) == MPI_SUCCESS);
    CHECK((part != MPI_COMM_NULL) == (rank < 2));
    if (part != MPI_COMM_NULL) {
        MPI_Comm_remote_size(part, &n);
        CHECK(n == 1);
        talk(part, 1);
        MPI_Comm_free(&part);
    }
    MPI_Group_free(&first);
    MPI_Group_free(&group);

    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    if (is_tutti()) {
        CHECK(class_of(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 1, &copy)) == MPI_ERR_COMM);
        CHECK(class_of(MPI_Intercomm_merge(half, 0, &copy)) == MPI_ERR_COMM);
        CHECK(class_of(MPI_Intercomm_create(half, 77, MPI_COMM_WORLD, 0, 1, &copy)) == MPI_ERR_RANK);
    }
    MPI_Comm_free(&half);
    MPI_Comm_disconnect(&inter);
    MPI_Group_free(&world);
    return finish("intercommunicators");
}
