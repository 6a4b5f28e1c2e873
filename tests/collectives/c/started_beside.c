/* Operations that are started and those that wait do not meet: on one member a started one goes first, on the others last. The standard
 * (6.12) wants one order on all members; programs that keep it among the started and among the waiting ones alone run elsewhere too. */
#include <mpi.h>
#include <stdio.h>

static int me, ranks, wrong;

static void expect(const char *what, int found, int wanted)
{
    if (found == wanted)
        return;
    printf("rank %d: %s is %d, not %d\n", me, what, found, wanted);
    wrong++;
}

/* Rank `first` starts an agreement and waits in a barrier; the others only come to it behind that barrier. */
static void one_starts_first(MPI_Comm comm, int first)
{
    int mine = me == first ? 11 : 13, all = 0, done;
    MPI_Request request;

    MPI_Barrier(comm);
    if (me == first) {
        MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_BAND, comm, &request);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (ranks > 1)
            expect("an agreement of one member", done, 0);
    }
    MPI_Barrier(comm);
    if (me != first)
        MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_BAND, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect("the agreement", all, ranks > 1 ? 9 : 11);
}

int main(void)
{
    int all_wrong, first;
    MPI_Comm comm;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (first = 0; first < ranks; first++) {
        one_starts_first(MPI_COMM_WORLD, first);
        one_starts_first(comm, first);
    }
    MPI_Comm_free(&comm);
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && all_wrong == 0)
        printf("started beside waiting: all right\n");
    MPI_Finalize();
    return all_wrong != 0;
}
