/*
 * For examples/sor.c (-include): keeps the stamps of kernel and process of each element from the end of tutti_dse_init to
 * tutti_dse_finish, and prints how many of each kind there were and how long they took, a line for each kind and element:
 *
 *   sor element=0 mark=2 n=1234 total_us=5678.9
 *
 * and one with mark=0: the time between the two. That of mark=7 (TAKEN) is what the kernel has waited for its process: since the last
 * thing that its own thread has done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti.h>
#include <tutti_dse.h>

enum { STAMPED_ROOM = 1 << 18, STAMPED_MARKS = 9 };

static double stamped_begin_us;

static inline double stamped_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static inline int stamped_init(size_t bytes) {
    int code = tutti_dse_init(bytes);
    if (code == 0 && tutti_stamps_start(STAMPED_ROOM, 1) != 0) {
        fprintf(stderr, "sor: no stamps\n");
        exit(1);
    }
    stamped_begin_us = stamped_now_us();
    return code;
}

static inline int stamped_finish(void) {
    double totals[STAMPED_MARKS] = {stamped_now_us() - stamped_begin_us}, counts[STAMPED_MARKS] = {1};
    tutti_stamped *stamps = calloc(2 * STAMPED_ROOM, sizeof(*stamps));
    int64_t found = stamps ? tutti_stamps_stop(stamps, 2 * STAMPED_ROOM) : -1;
    if (found < 0 || found > 2 * STAMPED_ROOM) {
        fprintf(stderr, "sor: %lld stamps\n", (long long)found);
        exit(1);
    }
    uint64_t last_ns = (uint64_t)(1e3 * stamped_begin_us);
    for (int64_t at = 0; at < found; at++) {
        uint32_t mark = stamps[at].mark;
        if (mark >= STAMPED_MARKS) {
            continue;
        }
        uint64_t begin_ns = mark == TUTTI_STAMP_TAKEN ? last_ns : stamps[at].begin_ns;
        counts[mark]++;
        totals[mark] += stamps[at].end_ns > begin_ns ? 1e-3 * (double)(stamps[at].end_ns - begin_ns) : 0;
        if (mark == TUTTI_STAMP_TAKEN || mark == TUTTI_STAMP_GIVEN || mark == TUTTI_STAMP_HANDED || mark == TUTTI_STAMP_MAPPED) {
            last_ns = stamps[at].end_ns;
        }
    }
    for (int mark = 0; mark < STAMPED_MARKS; mark++) {
        printf("sor element=%d mark=%d n=%.0f total_us=%.1f\n", tutti_dse_element(), mark, counts[mark], totals[mark]);
    }
    free(stamps);
    return tutti_dse_finish();
}

#define tutti_dse_init stamped_init
#define tutti_dse_finish stamped_finish
