/* A program for profiling tools: a singleton that starts, asks and ends. */

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int size = -1;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("size %d\n", size);
    return MPI_Finalize();
}
