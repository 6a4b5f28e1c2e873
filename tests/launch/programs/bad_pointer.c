/* Rank 1 receives into what is not its memory, or rank 0 sends what is not; with a third word each has closed
   all its descriptors first. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    enum { BYTES = 1000000 };
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void *good = calloc(1, BYTES), *bad = (void *)(size_t)4096;
    int in_send = argv[1][0] == 's', closes = argv[1][0] == 'c';
    if (closes)
        for (int number = 3; number < 1024; number++) close(number);
    if (rank == 0)
        MPI_Send(in_send ? bad : good, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(in_send || closes ? good : bad, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
