/* Stores to pages that are not here, then loads of what lies beside them: by code of the program, by functions that check
 * nothing, by the C library, by the kernel. In turns one process stores all words and the other one some of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/parmacs.h>
#include <unistd.h>

long readers_sum(const long *words, size_t count);
void readers_keep(const long *words);
long readers_sum_kept(size_t count);

enum { PROCESSES = 2, PAGE = 512, PAGES = 40, WORDS = PAGE * PAGES, ROUNDS = 16, WAYS = 8 };

static struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next, wrong;
} *all;
static long *words;

/* What a word is when both have stored. */
static long value(long round, long i) {
    return round * 1000003 + i + (i % 3 == 0 ? 7000000000 : 0);
}

static long sum_of(long round, long first, long count) {
    long sum = 0;
    for (long i = first; i < first + count; i++)
        sum += value(round, i);
    return sum;
}

static long sum_by_pipe(const long *from, size_t count) {
    static long got[PAGE];
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], from, count * sizeof *from) != (ssize_t)(count * sizeof *from))
        return -1;
    size_t bytes = 0;
    while (bytes < count * sizeof *from) {
        ssize_t more = read(ends[0], (char *)got + bytes, count * sizeof *from - bytes);
        if (more <= 0)
            return -1;
        bytes += (size_t)more;
    }
    close(ends[0]);
    close(ends[1]);
    return readers_sum(got, count);
}

/* The sum of a page's words in one of several ways. */
static long sum_by(long way, const long *page) {
    static long copy[PAGE], order[PAGE];
    long sum = 0;
    switch (way) {
    case 0: return readers_sum(page, PAGE);
    case 1: return readers_sum_kept(PAGE);
    case 2:
        memcpy(copy, page, sizeof copy);
        return readers_sum(copy, PAGE);
    case 3: return sum_by_pipe(page, PAGE);
    case 4:
        for (long i = 0; i < PAGE; i++)
            order[i] = (i * 5) % PAGE;
        for (long i = 0; i < PAGE; i++)
            sum += page[order[i]];
        return sum;
    case 5:
        for (long i = PAGE; i-- > 0;)
            sum += page[i];
        return sum;
    case 6:
        for (long i = 0; i < PAGE; i++)
            copy[i] = memcmp(page + i, page, sizeof *page) == 0 ? page[0] : page[i];
        return readers_sum(copy, PAGE);
    default:
        for (long i = 0; i < PAGE; i++) {
            long one;
            memcpy(&one, (const char *)page + i * (long)sizeof one, sizeof one);
            sum += one;
        }
        return sum;
    }
}

static void run(void) {
    long me, wrong = 0;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    for (long round = 0; round < ROUNDS; round++) {
        if (me == round % PROCESSES)
            for (long i = 0; i < WORDS; i++)
                words[i] = round * 1000003 + i;
        BARRIER(all->barrier, PROCESSES)
        if (me != round % PROCESSES) {
            for (long page = 0; page < PAGES; page++) {
                long *first = words + page * PAGE;
                /* Not in the place of all that is loaded in the loop. */
                for (long i = 0; i < PAGE; i++)
                    if ((page * PAGE + i) % 3 == 0)
                        first[i] = value(round, page * PAGE + i);
                readers_keep(first);
                wrong += sum_by((page + round) % WAYS, first) != sum_of(round, page * PAGE, PAGE);
            }
        }
        BARRIER(all->barrier, PROCESSES)
        for (long i = 0; i < WORDS; i++)
            wrong += words[i] != value(round, i);
        BARRIER(all->barrier, PROCESSES)
        /* A loop whose stores are noted before it, and which loads what it has stored, and what it has not. */
        long *rest = words + (WORDS / PROCESSES) * me;
        if (round % PROCESSES == 0)
            for (long i = 1; i < WORDS / PROCESSES; i++)
                rest[i] += rest[i - 1] % 5 + rest[(i * 7) % i];
        BARRIER(all->barrier, PROCESSES)
        if (round % PROCESSES == 0)
            for (long part = 0; part < PROCESSES; part++) {
                static long expected[WORDS / PROCESSES];
                long begin = WORDS / PROCESSES * part;
                for (long i = 0; i < WORDS / PROCESSES; i++)
                    expected[i] = value(round, begin + i);
                for (long i = 1; i < WORDS / PROCESSES; i++)
                    expected[i] += expected[i - 1] % 5 + expected[(i * 7) % i];
                wrong += memcmp(expected, words + begin, sizeof expected) != 0;
            }
        BARRIER(all->barrier, PROCESSES)
    }
    LOCK(all->lock)
    all->wrong += wrong;
    UNLOCK(all->lock)
}

int main(void) {
    all = (struct shared *)G_MALLOC(sizeof *all)
    words = (long *)G_MALLOC(WORDS * sizeof(long))
    all->next = all->wrong = 0;
    LOCKINIT(all->lock)
    BARINIT(all->barrier, PROCESSES)
    CREATE(run, PROCESSES)
    WAIT_FOR_END(PROCESSES)
    printf("udsm: %d processes, %ld wrong\n", PROCESSES, all->wrong);
    MAIN_END
}
