/* MPI 11.3: two sessions without a world model, then the world model beside a session. */
#include "check.h"

static int calls;

static void handler(MPI_Session *session, int *code, ...)
{
    (void)session, (void)code;
    calls++;
}

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "expected %s\n", what);
        exit(9);
    }
}
#define MUST(holds) must((holds) ? 1 : 0, #holds)

static void use(MPI_Session session, const char *tag)
{
    MPI_Group world, self;
    MPI_Comm comm, own;
    MPI_Info info;
    char name[MPI_MAX_PSET_NAME_LEN], value[16];
    int n, length, flag, rank, size, got = -1;
    MUST(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n) == MPI_SUCCESS && n >= 2);
    for (int i = 0; i < n; i++) {
        length = 0;
        MUST(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL) == MPI_SUCCESS && length > 1);
        MUST(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name) == MPI_SUCCESS);
        MUST((int)strlen(name) == length - 1);
    }
    MUST(MPI_Group_from_session_pset(session, "mpi://WORLD", &world) == MPI_SUCCESS);
    MUST(MPI_Group_from_session_pset(session, "mpi://SELF", &self) == MPI_SUCCESS);
    MPI_Group_rank(world, &rank);
    MPI_Group_size(world, &size);
    MUST(MPI_Session_get_pset_info(session, "mpi://WORLD", &info) == MPI_SUCCESS);
    length = sizeof value;
    MUST(MPI_Info_get_string(info, "mpi_size", &length, value, &flag) == MPI_SUCCESS && flag && atoi(value) == size);
    MPI_Info_free(&info);
    MUST(MPI_Comm_create_from_group(world, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MUST(MPI_Comm_create_from_group(self, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &own) == MPI_SUCCESS);
    MPI_Comm_size(own, &n);
    MUST(n == 1);
    MPI_Comm_size(comm, &n);
    MUST(n == size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, comm,
                 MPI_STATUS_IGNORE);
    MUST(got == (rank + size - 1) % size);
    if (size > 1) {
        /* Even and odd ranks, bridged. */
        int evens[1][3] = {{0, size - 1, 2}};
        MPI_Group even, odd;
        MPI_Comm inter;
        MPI_Group_range_incl(world, 1, evens, &even);
        MPI_Group_range_excl(world, 1, evens, &odd);
        MUST(MPI_Intercomm_create_from_groups(rank % 2 ? odd : even, 0, rank % 2 ? even : odd, 0, tag, MPI_INFO_NULL,
                                              MPI_ERRORS_RETURN, &inter) == MPI_SUCCESS);
        MPI_Comm_remote_size(inter, &n);
        MUST(n == (rank % 2 ? (size + 1) / 2 : size / 2));
        MPI_Comm_free(&inter);
        MPI_Group_free(&even);
        MPI_Group_free(&odd);
    }
    /* Of the predefined attributes such communicators have one, and so has what is made of them. */
    if (is_tutti()) {
        MPI_Comm copy;
        void *value;
        int keys[] = {MPI_TAG_UB, MPI_IO, MPI_HOST, MPI_WTIME_IS_GLOBAL, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE, MPI_APPNUM};
        MPI_Comm_dup(comm, &copy);
        for (int i = 0; i < 7; i++) {
            int flags[2] = {-1, -1};
            MPI_Comm_get_attr(comm, keys[i], &value, &flags[0]);
            MPI_Comm_get_attr(copy, keys[i], &value, &flags[1]);
            MUST(flags[0] == (i == 0) && flags[1] == (i == 0));
        }
        MPI_Comm_free(&copy);
    }
    MPI_Comm_free(&comm);
    MPI_Comm_free(&own);
    MPI_Group_free(&world);
    MPI_Group_free(&self);
}

int main(int argc, char **argv)
{
    MPI_Session one, two;
    MPI_Errhandler made;
    int flag, code;
    MUST(MPI_Session_create_errhandler(handler, &made) == MPI_SUCCESS);
    MUST(MPI_Session_init(MPI_INFO_NULL, made, &one) == MPI_SUCCESS && one != MPI_SESSION_NULL);
    MPI_Errhandler_free(&made);
    MUST(MPI_Initialized(&flag) == MPI_SUCCESS && !flag);
    use(one, "the first session");
    MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &two) == MPI_SUCCESS && two != one);
    use(two, "the second session");
    MPI_Group group;
    if (is_tutti()) {
        code = MPI_Group_from_session_pset(one, "mpi://NOWHERE", &group);
        MUST(code == MPI_ERR_ARG && calls == 1);
        MUST(MPI_Session_call_errhandler(one, MPI_ERR_OTHER) == MPI_SUCCESS && calls == 2);
    }
    MUST(MPI_Session_finalize(&one) == MPI_SUCCESS && one == MPI_SESSION_NULL);
    MUST(MPI_Session_finalize(&two) == MPI_SUCCESS);
    if (argc > 1) {
        printf("sessions alone: ok\n");
        return 0;
    }
    MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &one) == MPI_SUCCESS);
    MPI_Init(&argc, &argv);
    use(one, "beside the world");
    code = finish("sessions");
    MUST(MPI_Finalized(&flag) == MPI_SUCCESS && flag);
    use(one, "after the world");
    MUST(MPI_Session_finalize(&one) == MPI_SUCCESS);
    return code;
}
