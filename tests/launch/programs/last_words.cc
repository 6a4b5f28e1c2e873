// Prints by buffers of C++ that are its own, and aborts.
#include <iostream>
#include <mpi.h>

int main(int argc, char **argv)
{
    std::ios_base::sync_with_stdio(false);
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        std::cout << "the reason\n";
        MPI_Abort(MPI_COMM_WORLD, 6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
