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
    MPI_Win_unlock_all(win);
    if (both)
        printf("rank %d: both loads found the old value %d times\n", me, both), MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_free(&win);
    if (me == 0)
        puts("litmus: all right");
    MPI_Finalize();
    return 0;
}
