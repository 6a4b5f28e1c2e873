/* Two launches, each on two nodes, have a window together. One rank holds the lock of another one's memory,
   the next one waits behind it, and the lock is given back while the target sleeps in a receive. Holder and
   waiter are the target's mate on the other node and a rank of the other launch, in turn. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 12, TARGET = 3 };

static void nap(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

static void lock_and_add(MPI_Win win, int waits)
{
    int one = 1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, win);
    if (waits) {
        int other = waits - 1;
        MPI_Send(NULL, 0, MPI_INT, other, 1, MPI_COMM_WORLD);
        /* Nobody can tell when the other one is in the queue. If it comes too late nothing is wrong. */
        nap(20);
    }
    MPI_Accumulate(&one, 1, MPI_INT, TARGET, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_unlock(TARGET, win);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    int rank, size, *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        int holder = round % 2 == 0 ? 2 : 0, waiter = 2 - holder;
        if (rank == holder) {
            lock_and_add(win, waiter + 1);
        } else if (rank == waiter) {
            MPI_Recv(NULL, 0, MPI_INT, holder, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            lock_and_add(win, 0);
            MPI_Send(NULL, 0, MPI_INT, TARGET, 2, MPI_COMM_WORLD);
        } else if (rank == TARGET) {
            MPI_Recv(NULL, 0, MPI_INT, waiter, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == TARGET && (size != 4 || *memory != 2 * ROUNDS)) {
        fprintf(stderr, "%d ranks, sum %d\n", size, *memory);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_free(&win);
    if (rank == 0)
        puts("lock_queue: all right");
    MPI_Finalize();
    return 0;
}
