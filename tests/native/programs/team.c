/* The barrier of a team of threads. team errors; team rounds THREADS ROUNDS; team holds THREADS FILE GO: the barrier is in FILE, and
 * member 0 comes when GO is there; team solves THREADS ROUNDS SERIAL_US PARALLEL_US: computing is sleeping, the times of all rounds and
 * of the fastest are in ms. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <tutti.h>
#include <unistd.h>

#define CHECK(what)                                                      \
    do {                                                                 \
        if (!(what)) {                                                   \
            fprintf(stderr, "team: line %d: not %s\n", __LINE__, #what); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static tutti_parallel_barrier own, *barrier = &own;
static long threads, rounds, parallel_us;
static volatile long came[64];

static void compute(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&time, NULL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static uint64_t all(void) {
    return threads == 64 ? UINT64_MAX : (UINT64_C(1) << threads) - 1;
}

/* Between two barriers all have come as often. */
static void *counts(void *number) {
    int me = (int)(intptr_t)number;
    for (long round = 1; round <= rounds; ++round) {
        came[me] = round;
        CHECK(tutti_parallel_barrier_wait(barrier, me) == TUTTI_OK);
        for (int other = 0; other < threads; ++other)
            CHECK(came[other] == round);
        CHECK(tutti_parallel_barrier_wait(barrier, me) == TUTTI_OK);
    }
    return NULL;
}

static void *waits(void *number) {
    int me = (int)(intptr_t)number;
    CHECK(tutti_parallel_barrier_wait(barrier, me) == TUTTI_OK);
    came[me] = 1;
    return NULL;
}

static void *works(void *number) {
    int me = (int)(intptr_t)number;
    prctl(PR_SET_TIMERSLACK, 1);
    for (long round = 0; round < rounds; ++round) {
        CHECK(tutti_parallel_barrier_wait(barrier, me) == TUTTI_OK);
        compute(parallel_us / threads);
        CHECK(tutti_parallel_barrier_wait(barrier, me) == TUTTI_OK);
    }
    return NULL;
}

static void errors(void) {
    CHECK(tutti_parallel_barrier_wait(barrier, 0) == TUTTI_ERR_ARG);
    CHECK(tutti_parallel_barrier_init(barrier, 0) == TUTTI_ERR_ARG);
    CHECK(tutti_parallel_barrier_init(NULL, 1) == TUTTI_ERR_ARG);
    CHECK(tutti_parallel_barrier_wait(NULL, 0) == TUTTI_ERR_ARG);
    CHECK(tutti_parallel_barrier_init(barrier, 0x5) == TUTTI_OK);
    CHECK(tutti_parallel_barrier_wait(barrier, 1) == TUTTI_ERR_MEMBER);
    CHECK(tutti_parallel_barrier_wait(barrier, 3) == TUTTI_ERR_MEMBER);
    CHECK(tutti_parallel_barrier_wait(barrier, 64) == TUTTI_ERR_MEMBER);
    CHECK(tutti_parallel_barrier_wait(barrier, -1) == TUTTI_ERR_MEMBER);
    CHECK(tutti_parallel_barrier_inside(barrier) == 0);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, waits, (void *)2));
    while (tutti_parallel_barrier_inside(barrier) != 0x4)
        compute(100);
    CHECK(tutti_parallel_barrier_wait(barrier, 2) == TUTTI_ERR_MEMBER);
    CHECK(tutti_parallel_barrier_init(barrier, 1) == TUTTI_ERR_BUSY);
    CHECK(!came[2]);
    CHECK(tutti_parallel_barrier_wait(barrier, 0) == TUTTI_OK);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    threads = argc > 2 ? atol(argv[2]) : 3;
    rounds = argc > 3 ? atol(argv[3]) : 0;
    if (threads < 1 || threads > 64)
        return 2;
    if (!strcmp(how, "errors")) {
        errors();
        puts("team: ok");
        return 0;
    }
    int holds = !strcmp(how, "holds"), solves = !strcmp(how, "solves");
    if (argc < (holds ? 5 : solves ? 6 : 4))
        return 2;
    if (holds) {
        int file = open(argv[3], O_RDWR | O_CREAT, 0600);
        CHECK(file >= 0 && !ftruncate(file, 4096));
        barrier = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(barrier != MAP_FAILED);
    }
    long serial_us = solves ? atol(argv[4]) : 0;
    parallel_us = solves ? atol(argv[5]) : 0;
    CHECK(tutti_parallel_barrier_init(barrier, all()) == TUTTI_OK);
    pthread_t team[64];
    for (long at = 1; at < threads; ++at)
        CHECK(!pthread_create(&team[at], NULL, holds ? waits : solves ? works : counts, (void *)at));
    double began = now(), fastest = 1e9;
    if (holds) {
        while (tutti_parallel_barrier_inside(barrier) != (all() & ~UINT64_C(1)))
            compute(1000);
        puts("all but one are inside");
        fflush(stdout);
        while (access(argv[4], F_OK))
            compute(1000);
        for (long at = 1; at < threads; ++at)
            CHECK(!came[at]);
        CHECK(tutti_parallel_barrier_inside(barrier) == (all() & ~UINT64_C(1)));
        waits((void *)0);
    } else if (solves) {
        prctl(PR_SET_TIMERSLACK, 1);
        for (long round = 0; round < rounds; ++round) {
            double round_began = now();
            compute(serial_us);
            tutti_parallel_begin();
            CHECK(tutti_parallel_barrier_wait(barrier, 0) == TUTTI_OK);
            compute(parallel_us / threads);
            CHECK(tutti_parallel_barrier_wait(barrier, 0) == TUTTI_OK);
            tutti_parallel_end();
            double took = now() - round_began;
            fastest = took < fastest ? took : fastest;
        }
        printf("fastest round: %.3f ms\n", fastest);
    } else {
        counts((void *)0);
    }
    for (long at = 1; at < threads; ++at)
        pthread_join(team[at], NULL);
    CHECK(tutti_parallel_barrier_inside(barrier) == 0);
    printf("phases: %.1f ms\nteam: ok\n", now() - began);
    return 0;
}
