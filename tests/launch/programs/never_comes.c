/* Rank 1 leaves without MPI_Init; the others wait for it, or for the rank of the second argument. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char large[1 << 20];

int main(int argc, char **argv)
{
    if (atoi(getenv("TUTTI_RANK")) == 1) return 0;
    MPI_Init(&argc, &argv);
    const char *word = argc > 1 ? argv[1] : "barrier";
    int rank, x = 0, peer = argc > 2 ? atoi(argv[2]) : 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(word, "compute") && rank > 1) {
        for (;;) pause();
    } else if (!strcmp(word, "send")) {
        MPI_Ssend(large, sizeof large, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
    } else if (!strcmp(word, "barrier")) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Recv(&x, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
