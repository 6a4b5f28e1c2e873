/* Memory whose stores go to all copies: words of one array with different owners, a counter below a lock, and a
 * large page; each process looks at all of it in each round. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/parmacs.h>

enum { WORDS = 2048, ROUNDS = 12, LARGE = 2 << 20 };

static struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next, wrong;
} *all;
static long *words, *counter, processes;
static tutti_pages large = {0, LARGE};

static void run(void) {
    long me, wrong = 0, *table = large.start, stride = LARGE / (long)sizeof(long) / 8;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    for (long round = 1; round <= ROUNDS; round++) {
        for (long i = me; i < WORDS; i += processes)
            words[i] = round * WORDS + i;
        if (me == round % processes)
            for (long i = 0; i < 8; i++)
                table[i * stride] = round + i;
        LOCK(all->lock)
        ++*counter;
        UNLOCK(all->lock)
        BARRIER(all->barrier, processes)
        for (long i = 0; i < WORDS; i++)
            wrong += words[i] != round * WORDS + i;
        for (long i = 0; i < 8; i++)
            wrong += table[i * stride] != round + i;
        BARRIER(all->barrier, processes)
    }
    LOCK(all->lock)
    all->wrong += wrong;
    UNLOCK(all->lock)
}

int main(int count, char **arguments) {
    processes = count > 1 ? atol(arguments[1]) : 2;
    all = (struct shared *)G_MALLOC(sizeof *all)
    words = (long *)G_MALLOC_UPDATE(WORDS * sizeof *words)
    counter = (long *)G_MALLOC_UPDATE(sizeof *counter)
    G_PAGES(TUTTI_PAGES_ALLOCATE, &large, 1, TUTTI_PAGES_UPDATE | TUTTI_PAGES_2M)
    all->next = all->wrong = *counter = 0;
    LOCKINIT(all->lock)
    BARINIT(all->barrier, processes)
    CREATE(run, processes)
    WAIT_FOR_END(processes)
    all->wrong += *counter != processes * ROUNDS;
    printf("updates: %ld wrong\n", all->wrong);
    MAIN_END
}
