/* sends COUNT FILE: rank 0 sends COUNT messages to rank 1, then both make calls until FILE is there. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, word = 7, flag;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int count = argc == 3 ? atoi(argv[1]) : 0;
    for (int i = 0; i < count; i++) {
        if (rank == 0)
            MPI_Send(&word, 1, MPI_INT, 1, i, MPI_COMM_WORLD);
        else
            MPI_Recv(&word, 1, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    while (argc == 3 && access(argv[2], F_OK) != 0) {
        MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return MPI_Finalize();
}
