/* Stores of compiled code with notes and of functions without them, beside each other in one page and one interval. */
#include <stdio.h>
#include <string.h>
#include <tutti/parmacs.h>

void foreign_store(long *place, long value);
void foreign_keep(long *place);
void foreign_store_kept(long value);

enum { PROCESSES = 2, WORDS = 512, ROUNDS = 20 };

static struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next, wrong;
    char text[ROUNDS][64];
} *all;
static long *words;

static void run(void) {
    long me, wrong = 0;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    BARRIER(all->barrier, PROCESSES)
    foreign_keep(words);
    for (long round = 1; round <= ROUNDS; round++) {
        if (me == round % PROCESSES) {
            /* A noted store opens the page; what comes behind it has to arrive all the same. */
            words[8 * round] = round;
            foreign_store(words + 8 * round + 1, round + 1);
            words[8 * round + 2] = round + 2;
            foreign_store_kept(round + 3);
            snprintf(all->text[round - 1], sizeof all->text[0], "round %ld", round);
            /* The same word, by both. */
            foreign_store(words + 8 * round + 2, round + 4);
            words[8 * round + 2]++;
        } else {
            words[8 * round + 5] = -round;
        }
        BARRIER(all->barrier, PROCESSES)
        char expected[64];
        snprintf(expected, sizeof expected, "round %ld", round);
        wrong += words[8 * round] != round || words[8 * round + 1] != round + 1 || words[8 * round + 2] != round + 5;
        wrong += words[0] != round + 3 || words[8 * round + 5] != -round || strcmp(all->text[round - 1], expected) != 0;
        BARRIER(all->barrier, PROCESSES)
    }
    LOCK(all->lock)
    all->wrong += wrong;
    UNLOCK(all->lock)
}

int main(void) {
    all = (struct shared *)G_MALLOC(sizeof *all)
    /* Pages whose homes are different nodes. */
    words = (long *)G_MALLOC(40 * 4096)
    words += 20 * WORDS;
    all->next = all->wrong = 0;
    LOCKINIT(all->lock)
    BARINIT(all->barrier, PROCESSES)
    CREATE(run, PROCESSES)
    WAIT_FOR_END(PROCESSES)
    printf("foreign: %d processes, %ld wrong\n", PROCESSES, all->wrong);
    MAIN_END
}
