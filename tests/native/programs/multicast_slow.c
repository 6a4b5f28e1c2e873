/* Multicasts to many ranks, one of which, behind another one in the tree, stands still meanwhile: no rank keeps more of them
 * than a few records. */
#define _GNU_SOURCE
#include "check.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tutti.h>
#include <unistd.h>

enum { ROUNDS = 256, BYTES = 1 << 20, STILL = 2, STILL_S = 3, GROWTH_KIB_MAX = 64 << 10 };

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* A child stops this process and lets it go on later. */
static pid_t stand_still(void)
{
    pid_t child = fork();
    if (child == 0) {
        kill(getppid(), SIGSTOP);
        sleep(STILL_S);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    return child;
}

int main(int argc, char **argv)
{
    int n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    tutti_region own, *all = calloc((size_t)n, sizeof *all);
    unsigned char *memory = tutti_alloc(BYTES), *data = malloc(BYTES);
    CHECK(tutti_open(memory, BYTES, TUTTI_READ | TUTTI_WRITE, &own) == TUTTI_OK);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    memset(data, 0, BYTES);
    memset(memory, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    long before = peak_kib();
    if (me == STILL) {
        pid_t child = stand_still();
        waitpid(child, NULL, 0);
    }
    if (me == 0) {
        tutti_done done = {0, 0, 0};
        for (int round = 1; round <= ROUNDS; round++) {
            memset(data, round % 251, BYTES);
            CHECK(tutti_multicast(all, n, 0, data, BYTES, &done) == TUTTI_OK);
        }
        CHECK(tutti_wait_until(&done.count, TUTTI_EQ, ROUNDS, TUTTI_ANY) == TUTTI_OK && done.status == TUTTI_OK);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memory[0] == ROUNDS % 251 && memory[BYTES - 1] == ROUNDS % 251);
    long grown = peak_kib() - before;
    if (grown >= GROWTH_KIB_MAX)
        fprintf(stderr, "rank %d has grown by %ld KiB\n", me, grown);
    CHECK(grown < GROWTH_KIB_MAX);
    MPI_Barrier(MPI_COMM_WORLD);
    int sum = failures;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && sum == 0)
        printf("slow: ok\n");
    MPI_Finalize();
    return sum != 0;
}
