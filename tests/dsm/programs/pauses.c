/* Pauses are set, waited for and cleared, and all meet, again and again: each release waits until the pauses before are as
 * they were left. Processes come at different times, and more than there are cores: who
 * waits has gone to sleep. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/parmacs.h>

enum { ROUNDS = 60, PROCESSES_MAX = 16 };

static struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    PAUSEDEC(pauses[PROCESSES_MAX])
    long next, seen;
} *all;
static long processes;

static void run(void) {
    long me;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    for (long round = 0; round < ROUNDS; round++) {
        SETPAUSE(all->pauses[me])
        WAITPAUSE(all->pauses[(me + 1) % processes])
        BARRIER(all->barrier, processes)
        uint64_t begin, now;
        CLOCK(begin)
        do
            CLOCK(now)
        while (now - begin < (uint64_t)((me * 3 + round) % 4) * 1000);
        CLEARPAUSE(all->pauses[me])
        BARRIER(all->barrier, processes)
    }
    LOCK(all->lock)
    all->seen += ROUNDS;
    UNLOCK(all->lock)
}

int main(int argc, char **argv) {
    processes = argc > 1 ? atol(argv[1]) : 2;
    all = (struct shared *)G_MALLOC(sizeof *all)
    all->next = all->seen = 0;
    LOCKINIT(all->lock)
    BARINIT(all->barrier, processes)
    for (long i = 0; i < processes; i++)
        PAUSEINIT(all->pauses[i])
    CREATE(run, processes)
    WAIT_FOR_END(processes)
    printf("pauses: %ld rounds\n", all->seen);
    MAIN_END
}
