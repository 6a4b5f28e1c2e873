/* deadlocks KIND FOLDER: the ranks come to wait for each other for ever once FOLDER/go is there.
 *
 * sends: each even rank and the odd one behind it send each other a large message, and receive afterwards.
 * collectives: rank 0 is in a barrier, the others in a broadcast of rank 0.
 * wildcard: rank 0 receives from any rank what it needs from rank 1 later; rank 1 waits for its answer, the others for rank 0.
 * left: odd ranks have left; each even one waits for the one behind it.
 * pair: ranks 0 and 1 receive from each other; all others have left. */
#define _DEFAULT_SOURCE
#include <mpi.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

static void receive(int from) {
    int word;
    MPI_Recv(&word, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send(int to) {
    int word = 0;
    MPI_Send(&word, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    static char large[LARGE];
    char path[4096];
    int rank, size, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || size < 2 || size % 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const char *kind = argv[1];
    MPI_Barrier(MPI_COMM_WORLD);
    puts("deadlocks: up");
    fflush(stdout);
    snprintf(path, sizeof path, "%s/go", argv[2]);
    while (access(path, F_OK))
        usleep(1000);
    if (!strcmp(kind, "sends")) {
        MPI_Send(large, LARGE, MPI_BYTE, rank ^ 1, 7, MPI_COMM_WORLD);
        MPI_Recv(large, LARGE, MPI_BYTE, rank ^ 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(kind, "collectives")) {
        if (rank == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank > 0)
            MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(kind, "wildcard")) {
        if (rank == 1)
            send(0);
        if (rank == 0) {
            receive(MPI_ANY_SOURCE);
            receive(1);
            for (int to = 1; to < size; to++)
                send(to);
        } else {
            receive(0);
        }
    } else if (!strcmp(kind, "left")) {
        if (rank % 2 == 0)
            receive(rank + 1);
    } else if (!strcmp(kind, "pair")) {
        if (rank < 2)
            receive(1 - rank);
    } else {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
