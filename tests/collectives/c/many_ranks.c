/*
 * Many ranks of one node start, agree on a sum, hand a word around a ring, and end. Memory that a rank shares
 * with others follows the pairs that talk: all pairs would touch a page each.
 */
#include "../../mpi/programs/check.h"

/* KiB of shared memory that this process has touched. */
static long touched(void) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "RssShmem: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

int main(int argc, char **argv) {
    int rank, ranks, last = -1;
    long own, sum = 0, most = 0, kib;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    own = rank;
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == (long)ranks * (ranks - 1) / 2);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 7, &last, 1, MPI_INT, (rank + ranks - 1) % ranks, 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(last == (rank + ranks - 1) % ranks);
    kib = touched();
    CHECK(kib > 0);
    MPI_Allreduce(&kib, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d ranks, %ld KiB of shared memory in one at most\n", ranks, most);
    }
    CHECK(most < 2L * ranks);
    return finish("many_ranks");
}
