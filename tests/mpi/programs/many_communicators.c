/* Duplicates of communicators, made and freed, more than a rank has numbers of its own for in a job with room for 2,048 ranks.
 * Those of all ranks are right before and behind. */
#include <mpi.h>
#include <stdio.h>

#define MANY 400000

static int wrong;

static void all(int from)
{
    MPI_Comm comms[3];
    int rank, size, got;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3; i++)
        wrong += MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]) != MPI_SUCCESS;
    /* Each message comes over its own communicator, whichever is received first. */
    for (int i = 0; i < 3; i++) {
        int sent = from + 100 * i + rank;
        MPI_Request request;
        MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % size, 0, comms[i], &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 2; i >= 0; i--) {
        int left = (rank + size - 1) % size;
        MPI_Recv(&got, 1, MPI_INT, left, 0, comms[i], MPI_STATUS_IGNORE);
        wrong += got != from + 100 * i + left;
    }
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    all(0);
    for (int i = 0; i < MANY; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        MPI_Comm_free(&comm);
    }
    all(1000);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &wrong, &wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(wrong ? "wrong" : "many communicators: ok");
    MPI_Finalize();
    return 0;
}
