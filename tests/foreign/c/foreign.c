/* A program for any MPI: says who it is and what the ranks make together; its argument is what it does then. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, sum = 0, here;
    MPI_Comm node;
    const char *what = argc > 1 ? argv[1] : "";
    char big[100000];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    memset(big, rank, sizeof big);
    MPI_Bcast(big, sizeof big, MPI_CHAR, size - 1, MPI_COMM_WORLD);
    printf("rank %d of %d, %d on its node, sum %d, last %d\n", rank, size, here, sum, big[sizeof big - 1]);
    fflush(stdout);
    if (!strcmp(what, "abort") && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(what, "die") && rank == size - 1)
        raise(SIGKILL);
    if (!strcmp(what, "leave") && rank == size - 1)
        _exit(0);
    if (*what)
        for (;;)
            pause();
    MPI_Finalize();
    return 0;
}
