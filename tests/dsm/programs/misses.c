/* A process that misses pages for ever: it drops its copies and loads them again. It prints a line when it has begun. The
 * job ends when something ends it: a lost network. Argument: the number of processes (2); the others wait. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/parmacs.h>

MAIN_ENV

enum { PAGES = 64, LONGS = PAGES * 512 };

struct shared {
    LOCKDEC(names)
    BARDEC(barrier)
    long next;
    long *values;
};

static struct shared *all;
static long processes = 2;

static void run(void) {
    long me, rounds = 0, sum = 0;
    LOCK(all->names);
    me = all->next++;
    UNLOCK(all->names);
    BARRIER(all->barrier, processes);
    while (me == 1) {
        tutti_pages pages = {all->values, LONGS * sizeof(long)};
        G_PAGES(TUTTI_PAGES_INVALIDATE, &pages, 1, 0);
        for (long i = 0; i < LONGS; i += 512)
            sum += all->values[i];
        if (rounds++ == 3) {
            printf("misses: begun, %ld\n", sum);
            fflush(stdout);
        }
    }
    BARRIER(all->barrier, processes);
}

int main(int argc, char **argv) {
    if (argc > 1)
        processes = atol(argv[1]);
    all = G_MALLOC(sizeof *all);
    all->values = G_MALLOC(LONGS * sizeof(long));
    all->next = 0;
    LOCKINIT(all->names);
    BARINIT(all->barrier, processes);
    for (long i = 0; i < LONGS; i++)
        all->values[i] = 1;
    CREATE(run, processes);
    WAIT_FOR_END(processes);
    printf("misses: at an end\n");
    MAIN_END;
}
