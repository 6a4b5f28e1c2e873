/* slices FILE: one rank that computes and reads, on the page of its daemon, when its slice ends. Says "slices: up", then one line at a time:
   "slices: N" for each slice whose end lay ahead when the rank looked first and which was followed by a thaw, once the end had passed;
   "slices: alone" whenever nobody waits for an end. Until FILE is there. */
#define _GNU_SOURCE
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The first line of the page (crates/shm/src/daemon_page.rs). */
enum { THAWS, FROZEN_NS, SINCE_NS, GENERATION, SLICE_END_NS };

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static const volatile uint64_t *page(void)
{
    char line[512];
    unsigned long begin = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && begin == 0 && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "/memfd:tutti-turns") == NULL || sscanf(line, "%lx-", &begin) != 1)
            begin = 0;
    if (maps != NULL)
        fclose(maps);
    return (const volatile uint64_t *)begin;
}

static void wrong(const char *what, uint64_t one, uint64_t other)
{
    printf("slices: %s: %llu, %llu\n", what, (unsigned long long)one, (unsigned long long)other);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const volatile uint64_t *told = page();
    if (told == NULL)
        wrong("no page", 0, 0);
    puts("slices: up");
    fflush(stdout);
    uint64_t thaws = told[THAWS], end_ns = 0, slices = 0;
    int ahead = 0, alone = 0;
    for (unsigned looks = 0; (looks & 0xffff) != 0 || access(argv[1], F_OK) != 0; looks++) {
        /* What is said before a thaw is there when the thaw is counted; a look that a freeze interrupts counts for nothing. */
        uint64_t thaws_now = told[THAWS], end_now_ns = told[SLICE_END_NS], now_ns = now();
        if (told[THAWS] != thaws_now)
            continue;
        if (thaws_now != thaws && end_ns != 0) {
            if (now_ns < end_ns)
                wrong("frozen and thawed before the end of the slice", now_ns, end_ns);
            if (end_now_ns != 0 && end_now_ns <= end_ns)
                wrong("the next slice does not end later", end_now_ns, end_ns);
            if (ahead) {
                printf("slices: %llu\n", (unsigned long long)++slices);
                fflush(stdout);
            }
        }
        if (thaws_now != thaws || end_now_ns != end_ns)
            ahead = now_ns < end_now_ns;
        if (end_now_ns == 0 && !alone) {
            puts("slices: alone");
            fflush(stdout);
        }
        alone = end_now_ns == 0;
        thaws = thaws_now;
        end_ns = end_now_ns;
    }
    MPI_Finalize();
    return 0;
}
