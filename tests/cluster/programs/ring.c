/* ring: each rank receives from the one behind it, and nobody sends. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, size, word;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Recv(&word, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
