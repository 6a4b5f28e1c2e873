/* gaps FOLDER: each rank looks at the clock without end, and writes into FOLDER/gaps.RANK from when to when it did not run, if that was for
   more than a millisecond: two numbers a line, in us of the monotonic clock. The first line is its first look, twice. */
#define _GNU_SOURCE
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { GAP_US = 1000 };

static uint64_t now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    int rank;
    char name[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "%s/gaps.%d", argc > 1 ? argv[1] : ".", rank);
    FILE *file = fopen(name, "w");
    if (file == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    setvbuf(file, NULL, _IOLBF, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("gaps: up");
        fflush(stdout);
    }
    uint64_t last = now_us(), now;
    fprintf(file, "%llu %llu\n", (unsigned long long)last, (unsigned long long)last);
    for (;; last = now) {
        now = now_us();
        if (now - last > GAP_US)
            fprintf(file, "%llu %llu\n", (unsigned long long)last, (unsigned long long)now);
    }
}
