/* flood FILE: rank 0 sends without end to the other ranks, who never receive, and never call MPI again. First it finds out how many
   messages of SHORT bytes each of them takes: one that is not taken for a second of a busy rank will not be. Then it has UNDER_WAY messages
   under way, says "flood: up" and sends to the last rank, one waiting for the other. FILE has two numbers: how many of those it has begun
   to send, and how many have been taken. */
#define _XOPEN_SOURCE 600
#include <mpi.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { UNDER_WAY = 4096, BYTES_MAX = 100000, SHORT = 1000, TAKEN_MAX = 1 << 20 };

static char bytes[BYTES_MAX];

/* How many a rank takes; one more is under way when this returns. */
static int fill(int to)
{
    for (int taken = 0; taken < TAKEN_MAX; taken++) {
        MPI_Request request;
        int done = 0;
        MPI_Isend(bytes, SHORT, MPI_BYTE, to, 7, MPI_COMM_WORLD, &request);
        for (double since = MPI_Wtime(); !done && MPI_Wtime() - since < 1.0;)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            MPI_Request_free(&request);
            return taken;
        }
    }
    return TAKEN_MAX;
}

int main(int argc, char **argv)
{
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
    uint64_t counts[2] = {0, 0};
    int file = open(argv[1], O_WRONLY | O_CREAT, 0600);
    printf("flood: taken %d %d\n", fill(1), fill(ranks - 1));
    for (int i = 0; i < UNDER_WAY; i++)
        MPI_Isend(bytes, i % 3 == 2 ? BYTES_MAX : i % 5000, MPI_BYTE, 1 + i % (ranks - 1), i % 7, MPI_COMM_WORLD, &requests[i]);
    puts("flood: up");
    fflush(stdout);
    for (;;) {
        counts[0]++;
        if (file < 0 || pwrite(file, counts, sizeof counts, 0) < 0)
            MPI_Abort(MPI_COMM_WORLD, 2);
        MPI_Send(bytes, SHORT, MPI_BYTE, ranks - 1, 0, MPI_COMM_WORLD);
        counts[1]++;
    }
}
