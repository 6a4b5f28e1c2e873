/*
 * Many ranks of one node (mk/ranks.sh): start and end alone; then a barrier, a sum and a ring, or an exchange of
 * all with all. A line says what memory they had at the end: means of all ranks.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* KiB, as a file of /proc/self has it; 0 where it does not. */
static long kib(const char *file, const char *key) {
    char line[256];
    long found = 0;
    FILE *open = fopen(file, "r");
    while (open != NULL && fgets(line, sizeof line, open) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            found = strtol(line + strlen(key), NULL, 10);
            break;
        }
    }
    if (open != NULL) {
        fclose(open);
    }
    return found;
}

static void ring(int rank, int ranks) {
    long own = rank, sum = -1, last = -1;
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Sendrecv(&own, 1, MPI_LONG, (rank + 1) % ranks, 7, &last, 1, MPI_LONG, (rank + ranks - 1) % ranks, 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (sum != (long)ranks * (ranks - 1) / 2 || last != (rank + ranks - 1) % ranks) {
        fprintf(stderr, "rank %d: the sum is %ld, and rank %ld came\n", rank, sum, last);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void alltoall(int ranks) {
    enum { EACH = 1024 };
    char *from = calloc((size_t)ranks, EACH), *to = calloc((size_t)ranks, EACH);
    if (from == NULL || to == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Alltoall(from, EACH, MPI_BYTE, to, EACH, MPI_BYTE, MPI_COMM_WORLD);
    free(from);
    free(to);
}

static void report(int rank, int ranks) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    long own[] = {kib("/proc/self/smaps_rollup", "Pss:"), kib("/proc/self/status", "VmPTE:"), used.ru_minflt};
    long sum[] = {0, 0, 0};
    /* None ends, and gives its part of what is shared to the others, while one still looks. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Reduce(own, sum, 3, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("pss_kib=%ld tables_kib=%ld faults=%ld\n", sum[0] / ranks, sum[1] / ranks, sum[2] / ranks);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "start";
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(what, "start") != 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (strcmp(what, "ring") == 0) {
            ring(rank, ranks);
        } else if (strcmp(what, "alltoall") == 0) {
            alltoall(ranks);
        }
        report(rank, ranks);
    }
    MPI_Finalize();
    return 0;
}
