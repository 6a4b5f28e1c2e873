/* Rank 1 leaves without MPI_Init; the others wait for it. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (atoi(getenv("TUTTI_RANK")) == 1) return 0;
    MPI_Init(&argc, &argv);
    int x = 0;
    if (argc > 1)
        MPI_Recv(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
