/* A program that MPI_Init has started asks for threads by shmem_init_thread, and its threads use both. */
#include "check.h"
#include <mpi.h>
#include <pthread.h>

enum { ROUNDS = 2000, THREADS = 2 };
static long counted;

static void *work(void *unused)
{
    (void)unused;
    int next = (shmem_my_pe() + 1) % shmem_n_pes();
    for (int round = 0; round < ROUNDS; round++) {
        int here = 0;
        shmem_long_atomic_inc(&counted, next);
        MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
        CHECK(here == 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int level = -1, given = -1;
    pthread_t threads[THREADS];
    MPI_Init(&argc, &argv);
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &given) == 0 && given == SHMEM_THREAD_MULTIPLE);
    MPI_Query_thread(&level);
    CHECK(level == MPI_THREAD_MULTIPLE);
    for (int thread = 0; thread < THREADS; thread++)
        CHECK(pthread_create(&threads[thread], NULL, work, NULL) == 0);
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    shmem_barrier_all();
    CHECK(counted == THREADS * ROUNDS);
    int status = finish("raised");
    MPI_Finalize();
    return status;
}
