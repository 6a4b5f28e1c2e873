/* unlock and unlock_all end what was started, locked with MPI_MODE_NOCHECK too; many long gets at once. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALL = 128, LONG = 32768, GETS = 4000 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int me, ranks, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    int *memory = malloc(2 * LONG * sizeof(int)), *into = malloc(LONG * sizeof(int));
    MPI_Win win;
    for (int i = 0; i < 2 * LONG; i++)
        memory[i] = me;
    MPI_Win_create(memory, 2 * LONG * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int round = 0; round < 20; round++) {
        MPI_Request requests[SMALL];
        for (int i = 0; i < SMALL; i++)
            into[i] = -1;
        if (round % 2)
            MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
        else
            MPI_Win_lock(MPI_LOCK_SHARED, right, MPI_MODE_NOCHECK, win);
        for (int i = 0; i < SMALL; i++)
            MPI_Rget(&into[i], 1, MPI_INT, right, i, 1, MPI_INT, win, &requests[i]);
        int value = 1000 * round + me;
        for (int i = 0; i < SMALL; i++)
            MPI_Put(&value, 1, MPI_INT, right, LONG + i, 1, MPI_INT, win);
        if (round % 2)
            MPI_Win_unlock_all(win);
        else
            MPI_Win_unlock(right, win);
        /* It is over: what comes later would show here. */
        for (int i = 0; i < SMALL; i++)
            wrong += into[i] != right, into[i] = -2;
        MPI_Waitall(SMALL, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < SMALL; i++)
            wrong += into[i] != -2;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < SMALL; i++)
            wrong += memory[LONG + i] != 1000 * round + left;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (wrong) {
        printf("rank %d: %d values are wrong\n", me, wrong);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_fence(0, win);
    for (int i = 0; i < GETS; i++)
        MPI_Get(into, LONG, MPI_INT, right, 0, LONG, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < LONG; i++)
        wrong += into[i] != right;
    MPI_Win_free(&win);
    free(memory), free(into);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0)
        puts(wrong ? "unlock: wrong" : "unlock: all right");
    MPI_Finalize();
    return wrong != 0;
}
