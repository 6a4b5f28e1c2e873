/* A bounded buffer with condition variables: each item comes once, though those who put and those who take wait
 * for each other. Then all wait for one, which wakes them at once; then each goes on in its turn. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/parmacs.h>

MAIN_ENV

enum { ROOM = 3, ITEMS = 40, PROCESSES_MAX = 16 };

static struct shared {
    LOCKDEC(lock)
    CONDVARDEC(has_item)
    char elsewhere[8192];
    CONDVARDEC(has_room)
    CONDVARDEC(is_open)
    BARDEC(barrier)
    long next, items[ROOM], first, count, sum, taken, open, passed, turns;
} *all;
static long processes;

static void put(long item) {
    LOCK(all->lock)
    while (all->count == ROOM)
        CONDVARWAIT(all->has_room, all->lock)
    all->items[(all->first + all->count++) % ROOM] = item;
    CONDVARSIGNAL(all->has_item)
    UNLOCK(all->lock)
}

static void take(void) {
    LOCK(all->lock)
    while (all->count == 0)
        CONDVARWAIT(all->has_item, all->lock)
    all->sum += all->items[all->first];
    all->first = (all->first + 1) % ROOM;
    all->count--;
    all->taken++;
    UNLOCK(all->lock)
    /* Without the lock, as POSIX allows. */
    CONDVARSIGNAL(all->has_room)
}

static void run(void) {
    long me;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    /* Half of them put, half of them take. */
    for (long item = 0; item < ITEMS; item++)
        if (me % 2 == 0)
            put(1000 * me + item);
        else
            take();
    BARRIER(all->barrier, processes)
    LOCK(all->lock)
    if (me == 0) {
        /* The others have gone to sleep, or find it open. */
        all->open = 1;
        CONDVARBCAST(all->is_open)
    }
    while (!all->open)
        CONDVARWAIT(all->is_open, all->lock)
    all->passed++;
    UNLOCK(all->lock)
    BARRIER(all->barrier, processes)
    /* In turns: each wakes all, of whom one goes on. */
    for (long round = 0; round < 5; round++) {
        LOCK(all->lock)
        while (all->turns % processes != me)
            CONDVARWAIT(all->has_room, all->lock)
        all->turns++;
        CONDVARBCAST(all->has_room)
        UNLOCK(all->lock)
    }
}

int main(int argc, char **argv) {
    processes = argc > 1 ? atol(argv[1]) : 2;
    all = (struct shared *)G_MALLOC(sizeof *all)
    all->next = all->first = all->count = all->sum = all->taken = all->open = all->passed = all->turns = 0;
    LOCKINIT(all->lock)
    CONDVARINIT(all->has_item)
    CONDVARINIT(all->has_room)
    CONDVARINIT(all->is_open)
    BARINIT(all->barrier, processes)
    CREATE(run, processes)
    WAIT_FOR_END(processes)
    long expected = 0;
    for (long putter = 0; putter < processes; putter += 2)
        expected += ITEMS * 1000 * putter + ITEMS * (ITEMS - 1) / 2;
    printf("conditions: %ld taken, sum %s, %ld passed, %ld turns\n", all->taken, all->sum == expected ? "right" : "wrong",
           all->passed, all->turns);
    MAIN_END
}
