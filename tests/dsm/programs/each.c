/* Processes that are created one after the other, each with what main had stored in private memory by then; and ranks that
 * no process is made of. Main uses a lock often before, and holds it while it makes them. The argument is the number of
 * processes. */
#include <stdio.h>
#include <tutti/parmacs.h>

MAIN_ENV

struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next, sum;
};

static struct shared *all;
static long mine, processes;

static void run(void) {
    char *block = G_MALLOC(100);
    block[0] = 1;
    LOCK(all->lock);
    all->next += block[0];
    all->sum += mine;
    UNLOCK(all->lock);
    G_FREE(block);
    BARRIER(all->barrier, processes);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    processes = atol(argv[1]);
    all = G_MALLOC(sizeof *all);
    all->next = all->sum = 0;
    LOCKINIT(all->lock);
    BARINIT(all->barrier, processes);
    for (long times = 0; times < 1000; times++) {
        LOCK(all->lock);
        all->sum += times % 2 ? -1 : 1;
        UNLOCK(all->lock);
    }
    LOCK(all->lock);
    for (mine = 1; mine < processes; mine++)
        CREATE(run);
    all->next += all->sum;
    UNLOCK(all->lock);
    run();
    WAIT_FOR_END(processes - 1);
    printf("each: %ld processes, sum %ld\n", all->next, all->sum);
    MAIN_END;
}
