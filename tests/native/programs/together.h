/* What jobs that run at once see of each other's phases: words in a file that all of them map, by
 * TEST_TOGETHER=FILE:JOBS. No count depends on how long something takes, but on who else is where at that
 * moment. TEST_OTHERS=N: so many other jobs share the slots before the first phase begins. */
#ifndef TOGETHER_H
#define TOGETHER_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TOGETHER_JOBS_MAX = 16, TOGETHER_BYTES = 4096 };

/* Older regions do not count: the daemon may hold a job that keeps the slots for longer than its lease. */
static const uint64_t TOGETHER_LEASE_NS = 3000000;

struct together_job {
    /* Since when it is in a region; 0: it is in none. */
    _Atomic uint64_t since_ns;
    /* Serial phases that it has ended. */
    _Atomic uint64_t serial;
    uint64_t rest[6];
};

struct together {
    _Atomic uint32_t came;
    uint32_t rest[15];
    struct together_job jobs[TOGETHER_JOBS_MAX];
};

/* Words of the page of phases (crates/shm/src/phases.rs). */
enum { TOGETHER_RINGS = 11, TOGETHER_OTHERS = 16, TOGETHER_GRANT = 17, TOGETHER_REQUEST = 34 };

static struct together *together;
static _Atomic uint32_t *together_page;
static uint32_t together_me, together_jobs;
static uint64_t together_before;
static long together_regions, together_met, together_beside, together_ungranted;

static inline uint64_t together_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static inline void *together_map(int file) {
    void *map = mmap(NULL, TOGETHER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || map == MAP_FAILED) {
        perror("together");
        exit(5);
    }
    return map;
}

/* Serial phases that the other jobs have ended. */
static inline uint64_t together_serial(void) {
    uint64_t sum = 0;
    for (uint32_t job = 0; job < together_jobs; ++job)
        sum += job == together_me ? 0 : atomic_load(&together->jobs[job].serial);
    return sum;
}

/* Returns when all jobs are there, and the daemon has found that they share the slots. */
static inline void together_begin(void) {
    const char *where = getenv("TEST_TOGETHER"), *page = getenv("TUTTI_PHASES"), *others = getenv("TEST_OTHERS");
    struct timespec pause = {0, 1000000};
    if (page)
        together_page = together_map(atoi(page));
    while (page && others && atomic_load(&together_page[TOGETHER_OTHERS]) < (uint32_t)atoi(others))
        nanosleep(&pause, NULL);
    if (!where)
        return;
    const char *jobs = strrchr(where, ':');
    char path[1024] = "";
    if (!jobs || jobs - where >= (long)sizeof path)
        exit(5);
    memcpy(path, where, (size_t)(jobs - where));
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, TOGETHER_BYTES))
        exit(5);
    together = together_map(file);
    close(file);
    together_jobs = (uint32_t)atoi(jobs + 1);
    together_me = atomic_fetch_add(&together->came, 1);
    if (together_jobs > TOGETHER_JOBS_MAX || together_me >= together_jobs)
        exit(5);
    while (atomic_load(&together->came) < together_jobs)
        nanosleep(&pause, NULL);
    while (together_page && atomic_load(&together_page[TOGETHER_OTHERS]) + 1 < together_jobs)
        nanosleep(&pause, NULL);
}

/* A serial phase is over. */
static inline void together_worked(void) {
    if (together)
        atomic_fetch_add(&together->jobs[together_me].serial, 1);
}

/* A region begins: its process has waited for the slots, if it has to. */
static inline void together_enter(void) {
    uint64_t now = together_now();
    int met = 0;
    ++together_regions;
    if (together_page && atomic_load(&together_page[TOGETHER_OTHERS]) && atomic_load(&together_page[TOGETHER_GRANT]) % 2 == 0)
        ++together_ungranted;
    if (!together)
        return;
    atomic_store(&together->jobs[together_me].since_ns, now);
    for (uint32_t job = 0; job < together_jobs; ++job) {
        uint64_t since = atomic_load(&together->jobs[job].since_ns);
        met |= job != together_me && since && now < since + TOGETHER_LEASE_NS;
    }
    together_met += met;
    together_before = together_serial();
}

/* It ends. */
static inline void together_leave(void) {
    if (together) {
        together_beside += together_serial() != together_before;
        atomic_store(&together->jobs[together_me].since_ns, 0);
    }
}

/* Says what was counted. */
static inline void together_end(void) {
    if (!together && !together_page)
        return;
    printf("together: %ld regions, %ld met another, %ld beside serial phases, %ld without the slots\n", together_regions,
           together_met, together_beside, together_ungranted);
    if (together_page)
        printf("page: %u rings, %llu requests\n", atomic_load(&together_page[TOGETHER_RINGS]),
               (unsigned long long)*(volatile uint64_t *)(volatile void *)&together_page[TOGETHER_REQUEST]);
}

#endif
