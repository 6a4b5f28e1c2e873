/* Words of symmetric memory that are stored by what is no call of OpenSHMEM wake a PE that sleeps until they change: the
 * function of a signal, and an operation of an MPI window. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <mpi.h>
#include <tutti.h>
#include <unistd.h>

enum { ROUNDS = 12, PAUSE_US = 30000 };
static long word, acknowledged;

static void store(const void *data, size_t bytes, int from, void *context)
{
    (void)from;
    (void)context;
    if (bytes == sizeof(long))
        *(volatile long *)&word = *(const long *)data;
}

/* PE 0 waits for each value; PE 1 gives it when that has fallen asleep, most likely. */
static void play(void give(long value, void *context), void *context)
{
    for (long round = 1; round <= ROUNDS; round++) {
        if (shmem_my_pe() == 0) {
            shmem_long_wait_until(&word, SHMEM_CMP_EQ, round);
            shmem_long_p(&acknowledged, round, 1);
        } else if (shmem_my_pe() == 1) {
            usleep(PAUSE_US);
            give(round, context);
            shmem_long_wait_until(&acknowledged, SHMEM_CMP_EQ, round);
        }
    }
    shmem_barrier_all();
    word = acknowledged = 0;
    shmem_barrier_all();
}

static void signal_it(long value, void *signal)
{
    CHECK(tutti_put(signal, &value, sizeof value, TUTTI_WAIT) == TUTTI_OK);
}

static void put_it(long value, void *window)
{
    MPI_Win win = *(MPI_Win *)window;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
}

int main(int argc, char **argv)
{
    tutti_region signal;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    shmem_init();
    CHECK(shmem_my_pe() != 0 || tutti_signal_open(4096, store, NULL, &signal) == TUTTI_OK);
    MPI_Bcast(&signal, sizeof signal, MPI_BYTE, 0, MPI_COMM_WORLD);
    play(signal_it, &signal);
    if (shmem_my_pe() == 0)
        CHECK(tutti_close(&signal) == TUTTI_OK);
    shmem_barrier_all();
    MPI_Win_create(&word, sizeof word, sizeof word, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    play(put_it, &window);
    MPI_Win_free(&window);
    int status = finish("stored");
    MPI_Finalize();
    return status;
}
