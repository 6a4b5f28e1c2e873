/* tutti_try_wait_until: "not now" for a partner that sleeps, is far behind or stands still, on this node or on another one.
 * away near|far: rank 0 waits; the last rank is its partner, on this node or on another. */
#define _DEFAULT_SOURCE
#include "check.h"
#include "../../windows/c/stopped.h"
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tutti.h>
#include <unistd.h>

enum { FLAG, STEP, WORDS = 8, LIMIT_S = 40, CROWDED_S = 5 };

static int n, is_far;

static volatile int64_t *memory;
static tutti_region regions[64];

static void set(int rank, int word, int64_t value)
{
    CHECK(tutti_swap(&regions[rank], (uint64_t)word * 8, value, &(int64_t){0}, TUTTI_WAIT) == TUTTI_OK);
}

/* Computes, and calls nothing, until a word is that far: it may be further when this rank has a core. */
static void compute_until(int word, int64_t value)
{
    while (__atomic_load_n(&memory[word], __ATOMIC_ACQUIRE) < value)
        ;
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Tries again and again until the call returns this. Where others have most of this rank's core, nobody gives its partner
 * one either: then it is away for as long as they do, and PENDING need not come. */
static int comes(int status, int64_t partner)
{
    const double begin = seconds(CLOCK_MONOTONIC), had = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (;;) {
        int found = tutti_try_wait_until(&memory[FLAG], TUTTI_EQ, 1, partner);
        if (found == status)
            return 1;
        CHECK(found == TUTTI_PENDING || found == TUTTI_AWAY);
        const double passed = seconds(CLOCK_MONOTONIC) - begin;
        if (passed > LIMIT_S)
            return 0;
        if (passed > CROWDED_S && status == TUTTI_PENDING && seconds(CLOCK_THREAD_CPUTIME_ID) - had < 0.6 * passed) {
            printf("away: others have the cores\n");
            return 1;
        }
        sched_yield();
    }
}

static void wait_for(int partner, int pid)
{
    int64_t any = 3;
    CHECK(tutti_try_wait_until(&memory[FLAG], 0, 1, partner) == TUTTI_ERR_ARG);
    CHECK(tutti_try_wait_until(&any, TUTTI_EQ, 3, partner) == TUTTI_OK);
    CHECK(tutti_progress(1000, 10) == TUTTI_OK);
    set(partner, STEP, 1);
    /* It computes, and is far behind. */
    CHECK(comes(TUTTI_AWAY, partner));
    CHECK(tutti_try_wait_until(&memory[FLAG], TUTTI_EQ, 1, TUTTI_ANY) == TUTTI_PENDING);
    set(partner, STEP, 2);
    /* It computes, and has caught up. */
    CHECK(comes(TUTTI_PENDING, partner));
    /* It stands still. */
    CHECK(kill(pid, SIGSTOP) == 0);
    while (!is_stopped(pid))
        ;
    if (is_far)
        CHECK(comes(TUTTI_AWAY, partner));
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(comes(TUTTI_PENDING, partner));
    set(partner, STEP, 3);
    /* It sleeps in a call. */
    CHECK(comes(TUTTI_AWAY, partner));
    set(partner, STEP, 4);
    CHECK(comes(TUTTI_OK, partner));
}

int main(int argc, char **argv)
{
    int pids[64], pid = (int)getpid();
    int64_t flag = 0;
    is_far = argc > 1 && !strcmp(argv[1], "far");
    CHECK(tutti_try_wait_until(&flag, TUTTI_EQ, 1, TUTTI_ANY) == TUTTI_ERR_RUNNING);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    memory = tutti_alloc(WORDS * 8);
    tutti_region own;
    CHECK(tutti_open((void *)memory, WORDS * 8, TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC, &own) == TUTTI_OK);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, regions, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    if (me == 0) {
        wait_for(n - 1, pids[n - 1]);
    } else if (me == n - 1) {
        compute_until(STEP, 1);
        CHECK(tutti_progress(10, 10) == TUTTI_OK);
        compute_until(STEP, 2);
        CHECK(tutti_progress(995, 10) == TUTTI_OK);
        compute_until(STEP, 3);
        CHECK(tutti_wait_until(&memory[STEP], TUTTI_EQ, 4, TUTTI_ANY) == TUTTI_OK);
        set(0, FLAG, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int sum = failures;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && sum == 0)
        printf("away: ok\n");
    MPI_Finalize();
    return sum != 0;
}
