/* Store, flush, load against store, flush, load: never do both loads find the old value (store buffering).
   Message passing: who sees the flag sees the data. Argument: rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int me;
static MPI_Win win;
static volatile int *cells[2]; /* each rank's memory, mapped here */

static void meet(int round)
{
    /* Cell 32: how far this rank is. */
    __atomic_store_n(&cells[me][32], round, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&cells[1 - me][32], __ATOMIC_SEQ_CST) < round)
        ;
}

/* Store-flush-load by operations alone, in a window that ranks do not write without calls: a flush may know that
   an atomic operation has ordered everything already. How often both found the old value. */
static int operations_alone(int rounds, int *step)
{
    int *own, one = 1, found, both = 0;
    long element = 1, before;
    MPI_Win plain;
    MPI_Win_allocate(4096, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &plain);
    MPI_Win_lock_all(0, plain);
    for (int way = 0; way < 6; way++)
        for (int round = 1; round <= rounds; round++) {
            own[0] = own[2] = 0, cells[me][64] = -1;
            MPI_Win_sync(plain);
            meet(++*step);
            switch (way) {
            case 0: MPI_Put(&one, 1, MPI_INT, me, 0, 1, MPI_INT, plain); break;
            case 1: MPI_Accumulate(&one, 1, MPI_INT, me, 0, 1, MPI_INT, MPI_SUM, plain); break;
            case 2: MPI_Fetch_and_op(&one, &found, MPI_INT, me, 0, MPI_REPLACE, plain); break;
            case 3: /* a store, then an exchange */
                MPI_Put(&one, 1, MPI_INT, me, 0, 1, MPI_INT, plain);
                MPI_Fetch_and_op(&element, &before, MPI_LONG, me, 2, MPI_SUM, plain);
                break;
            case 4: /* an exchange, then a store */
                MPI_Fetch_and_op(&element, &before, MPI_LONG, me, 2, MPI_SUM, plain);
                MPI_Put(&one, 1, MPI_INT, me, 0, 1, MPI_INT, plain);
                break;
            default: /* a flush that has nothing to order, then a store of another type on each side */
                MPI_Win_flush(me, plain);
                MPI_Put(&one, 4, MPI_BYTE, me, 0, 1, MPI_INT, plain);
            }
            MPI_Win_flush(me, plain);
            MPI_Get(&found, 1, MPI_INT, 1 - me, 0, 1, MPI_INT, plain);
            MPI_Win_flush(1 - me, plain);
            cells[me][64] = found;
            meet(++*step);
            both += cells[0][64] == 0 && cells[1][64] == 0;
            meet(++*step);
        }
    /* From the query on ranks may write each other's memory without a call, so each flush is a fence. */
    volatile int *queried[2];
    for (int rank = 0; rank < 2; rank++) {
        MPI_Aint size;
        int unit;
        MPI_Win_shared_query(plain, rank, &size, &unit, &queried[rank]);
    }
    for (int round = 1; round <= rounds; round++) {
        queried[me][0] = 0;
        meet(++*step);
        queried[me][0] = 1;
        MPI_Win_flush(me, plain);
        cells[me][64] = queried[1 - me][0];
        meet(++*step);
        both += cells[0][64] == 0 && cells[1][64] == 0;
        meet(++*step);
    }
    MPI_Win_unlock_all(plain);
    MPI_Win_free(&plain);
    return both;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    int rounds = atoi(argv[1]), unit, step = 0, both = 0;
    int *own;
    MPI_Aint size;
    MPI_Win_allocate_shared(4096, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    for (int rank = 0; rank < 2; rank++)
        MPI_Win_shared_query(win, rank, &size, &unit, &cells[rank]);
    MPI_Win_lock_all(0, win);
    for (int way = 0; way < 4; way++)
        for (int round = 1; round <= rounds; round++) {
            /* Rank 0 writes its cell 0 and reads the other's, and the other way round. */
            cells[me][0] = 0, cells[me][64] = -1;
            meet(++step);
            int one = 1, found;
            MPI_Put(&one, 1, MPI_INT, me, 0, 1, MPI_INT, win);
            switch (way) {
            case 0: MPI_Win_flush(me, win); break;
            case 1: MPI_Win_flush_all(win); break;
            case 2: MPI_Win_sync(win); break;
            default: MPI_Win_unlock_all(win), MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
            }
            found = cells[1 - me][0];
            cells[me][64] = found;
            meet(++step);
            both += cells[0][64] == 0 && cells[1][64] == 0;
            meet(++step);
        }
    both += operations_alone(rounds, &step);
    MPI_Win_unlock_all(win);
    if (both)
        printf("rank %d: both loads found the old value %d times\n", me, both), MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_free(&win);
    if (me == 0)
        puts("litmus: all right");
    MPI_Finalize();
    return 0;
}
