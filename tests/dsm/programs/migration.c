/* Each rank writes pages whose first home is another one, in all rounds, and loads some of its neighbour's. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/parmacs.h>

MAIN_ENV

/* Pages that follow each other have one home: so many. */
enum { PAGES = 16, WORDS = 512, PIECE = PAGES * WORDS * (int)sizeof(long), ROUNDS = 12 };

static struct shared {
    BARDEC(barrier)
    LOCKDEC(lock)
    long wrong;
} *all;
static long processes;
static char *pieces;

/* The words of a rank: with two ranks on each node their home is on another node. */
static long *words_of(long rank) {
    return (long *)(pieces + (rank + processes / 2) % processes * PIECE);
}

static long word(long rank, long round, long place) {
    return (round * 7919 + rank) * 65537 + place * 31 + 1;
}

static long wrong_of(long rank, long round, long step) {
    long wrong = 0;
    for (long place = 0; place < PAGES * WORDS; place += step)
        wrong += words_of(rank)[place] != word(rank, round, place);
    return wrong;
}

static void run(void) {
    int me;
    long wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (long round = 0; round < ROUNDS; round++) {
        BARRIER(all->barrier, processes)
        for (long place = 0; place < PAGES * WORDS; place++)
            words_of(me)[place] = word(me, round, place);
        BARRIER(all->barrier, processes)
        if (round % 4 == 3)
            wrong += wrong_of((me + 1) % processes, round, 4 * WORDS);
    }
    for (long rank = 0; rank < processes; rank++)
        wrong += wrong_of(rank, ROUNDS - 1, 1);
    LOCK(all->lock)
    all->wrong += wrong;
    UNLOCK(all->lock)
}

int main(int count, char **arguments) {
    size_t round;
    if (count < 2)
        return 2;
    processes = atol(arguments[1]);
    round = (size_t)processes * PIECE;
    all = (struct shared *)G_MALLOC(sizeof *all)
    /* The arena begins at a multiple of any piece, and rank 0 is the home of the first. */
    pieces = (char *)G_MALLOC(2 * round)
    pieces += round - (size_t)pieces % round;
    all->wrong = 0;
    BARINIT(all->barrier, processes)
    LOCKINIT(all->lock)
    CREATE(run, processes)
    WAIT_FOR_END(processes)
    printf("migration: %ld wrong\n", all->wrong);
    MAIN_END
}
