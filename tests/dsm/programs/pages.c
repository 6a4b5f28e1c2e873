/* Pages in bulk: runs of small and of large pages are allocated, invalidated and freed, each by one call. */
#include <stdio.h>
#include <string.h>
#include <tutti/parmacs.h>

enum { PROCESSES = 2, RUNS = 3, LARGE = 2 << 20, WORDS = LARGE / sizeof(long) };

static struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next, wrong;
} *all;
static tutti_pages small[RUNS], large[RUNS];

static long sum(const tutti_pages *run) {
    const long *words = run->start;
    long found = 0;
    for (size_t i = 0; i < run->bytes / sizeof(long); i++)
        found += words[i];
    return found;
}

static void fill(const tutti_pages *run, long value) {
    long *words = run->start;
    for (size_t i = 0; i < run->bytes / sizeof(long); i++)
        words[i] = value;
}

static void run(void) {
    long me, wrong = 0;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    for (long round = 1; round <= 4; round++) {
        if (me == round % PROCESSES)
            for (int i = 0; i < RUNS; i++) {
                fill(&small[i], round + i);
                fill(&large[i], round * i);
                /* What is stored goes home first. */
                G_PAGES(TUTTI_PAGES_INVALIDATE, &small[i], 1, 0)
            }
        BARRIER(all->barrier, PROCESSES)
        for (int twice = 0; twice < 2; twice++) {
            for (int i = 0; i < RUNS; i++) {
                wrong += sum(&small[i]) != (round + i) * (long)(small[i].bytes / sizeof(long));
                wrong += sum(&large[i]) != round * i * (long)(large[i].bytes / sizeof(long));
            }
            G_PAGES(TUTTI_PAGES_INVALIDATE, small, RUNS, 0)
            G_PAGES(TUTTI_PAGES_INVALIDATE, large, RUNS, 0)
        }
        BARRIER(all->barrier, PROCESSES)
    }
    LOCK(all->lock)
    all->wrong += wrong;
    UNLOCK(all->lock)
}

int main(void) {
    all = (struct shared *)G_MALLOC(sizeof *all)
    for (int i = 0; i < RUNS; i++) {
        small[i].bytes = (size_t)(i + 1) * 4096;
        large[i].bytes = (size_t)(i + 1) * LARGE;
    }
    G_PAGES(TUTTI_PAGES_ALLOCATE, small, RUNS, TUTTI_PAGES_4K)
    G_PAGES(TUTTI_PAGES_ALLOCATE, large, RUNS, TUTTI_PAGES_2M)
    all->next = all->wrong = 0;
    for (int i = 0; i < RUNS; i++)
        all->wrong += (uintptr_t)small[i].start % 4096 != 0 || (uintptr_t)large[i].start % LARGE != 0;
    LOCKINIT(all->lock)
    BARINIT(all->barrier, PROCESSES)
    CREATE(run, PROCESSES)
    WAIT_FOR_END(PROCESSES)
    tutti_pages again[RUNS];
    memcpy(again, large, sizeof again);
    G_PAGES(TUTTI_PAGES_FREE, again, RUNS, 0)
    G_PAGES(TUTTI_PAGES_ALLOCATE, again, RUNS, TUTTI_PAGES_2M)
    printf("pages: %ld wrong\n", all->wrong);
    MAIN_END
}
