/* still: ranks that wait for each other, and none sends. */
#include <mpi.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, ranks, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("still: up");
        fflush(stdout);
    }
    MPI_Recv(&word, 1, MPI_INT, (rank + 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
