/* polite FILE: when FILE is there, two processes count in turns under a lock and read what the other has written. The last one
 * says what has been counted. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/parmacs.h>
#include <unistd.h>

enum { ROUNDS = 30, PROCESSES = 2, WORDS = 4096 };

static struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next, counted, words[PROCESSES][WORDS];
} *all;
static const char *file;

static void run(void) {
    struct timespec pause = {0, 1000000};
    long me;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    BARRIER(all->barrier, PROCESSES)
    if (me == 0) {
        puts("polite: up");
        fflush(stdout);
    }
    while (access(file, F_OK))
        nanosleep(&pause, NULL);
    for (long round = 1; round <= ROUNDS; round++) {
        all->words[me][round * 100] = round;
        BARRIER(all->barrier, PROCESSES)
        LOCK(all->lock)
        all->counted += all->words[1 - me][round * 100];
        UNLOCK(all->lock)
    }
}

int main(int argc, char **argv) {
    file = argc > 1 ? argv[1] : "";
    all = (struct shared *)G_MALLOC(sizeof *all)
    LOCKINIT(all->lock)
    BARINIT(all->barrier, PROCESSES)
    CREATE(run, PROCESSES)
    WAIT_FOR_END(PROCESSES)
    printf("polite: counted %ld\n", all->counted);
    MAIN_END
}
