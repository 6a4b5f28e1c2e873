/* Ranks below a number take locks in turns, and count below each. The counters have their home at rank 0; the locks are
 * kept by all ranks alike. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/parmacs.h>

MAIN_ENV

/* Pages that follow each other have one home: so many. */
enum { LOCKS = 16, PAGE = 4096, PIECE = LOCKS * PAGE };

static struct shared {
    BARDEC(barrier)
    ALOCKDEC(locks, LOCKS)
} *all;
static long processes, takers, rounds;
static char *counters;

static long *counter(long lock) {
    return (long *)(counters + lock * PAGE);
}

static void run(void) {
    int me;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    BARRIER(all->barrier, processes)
    for (long round = 0; me < takers && round < rounds; round++) {
        ALOCK(all->locks, round % LOCKS)
        ++*counter(round % LOCKS);
        AULOCK(all->locks, round % LOCKS)
    }
    BARRIER(all->barrier, processes)
}

int main(int count, char **arguments) {
    long wrong = 0;
    if (count < 4)
        return 2;
    processes = atol(arguments[1]);
    takers = atol(arguments[2]);
    rounds = atol(arguments[3]);
    all = (struct shared *)G_MALLOC(sizeof *all)
    /* The arena begins at a multiple of any piece, and rank 0 is the home of the first. */
    counters = (char *)G_MALLOC(2 * (size_t)processes * PIECE)
    counters += (size_t)processes * PIECE - (size_t)counters % ((size_t)processes * PIECE);
    for (long lock = 0; lock < LOCKS; lock++)
        *counter(lock) = 0;
    BARINIT(all->barrier, processes)
    ALOCKINIT(all->locks, LOCKS)
    CREATE(run, processes)
    WAIT_FOR_END(processes)
    for (long lock = 0; lock < LOCKS; lock++)
        wrong += *counter(lock) != takers * (rounds / LOCKS);
    printf("handover: %ld wrong\n", wrong);
    MAIN_END
}
