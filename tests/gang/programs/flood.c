/* flood: rank 0 sends without end to the other ranks, who never receive, and never call MPI again. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { UNDER_WAY = 4096, BYTES_MAX = 100000 };

int main(int argc, char **argv)
{
    static char bytes[BYTES_MAX];
    static MPI_Request requests[UNDER_WAY];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        for (;;)
            pause();
    }
    for (int i = 0; i < UNDER_WAY; i++)
        MPI_Isend(bytes, i % 3 == 2 ? BYTES_MAX : i % 5000, MPI_BYTE, 1 + i % (ranks - 1), i % 7, MPI_COMM_WORLD, &requests[i]);
    puts("flood: up");
    fflush(stdout);
    /* A standard send waits when nothing more is taken: no later than here. */
    MPI_Waitall(UNDER_WAY, requests, MPI_STATUSES_IGNORE);
    for (;;)
        MPI_Send(bytes, BYTES_MAX, MPI_BYTE, ranks - 1, 0, MPI_COMM_WORLD);
}
