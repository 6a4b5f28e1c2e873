/* Three processes hold a lock each and want that of the next one: none goes on. */
#include <stdio.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define PROCESSES 3

struct shared {
    LOCKDEC(names)
    ALOCKDEC(locks, PROCESSES)
    BARDEC(barrier)
    long next;
};

static struct shared *all;

static void run(void) {
    long me;
    LOCK(all->names);
    me = all->next++;
    UNLOCK(all->names);
    ALOCK(all->locks, me);
    BARRIER(all->barrier, PROCESSES);
    ALOCK(all->locks, (me + 1) % PROCESSES);
    AULOCK(all->locks, (me + 1) % PROCESSES);
    AULOCK(all->locks, me);
}

int main(void) {
    all = G_MALLOC(sizeof *all);
    all->next = 0;
    LOCKINIT(all->names);
    ALOCKINIT(all->locks, PROCESSES);
    BARINIT(all->barrier, PROCESSES);
    CREATE(run, PROCESSES);
    WAIT_FOR_END(PROCESSES);
    printf("cycle: nothing was said\n");
    MAIN_END;
}
