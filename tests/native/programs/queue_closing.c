/* A queue is closed while a thread waits for its next message: that is refused, and touches the memory no more. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <tutti.h>
#include <unistd.h>

enum { ROUNDS = 40, BYTES = 1 << 20 };
static tutti_region queue;

static void *take(void *status)
{
    char message[64];
    size_t bytes = sizeof message;
    int from;
    *(int *)status = tutti_take(&queue, message, &bytes, &from, 1);
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    CHECK(level == MPI_THREAD_MULTIPLE);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[2];
        int status[2] = {7, 7};
        CHECK(tutti_queue_open(BYTES, &queue) == TUTTI_OK);
        for (int i = 0; i < 2; i++)
            CHECK(pthread_create(&threads[i], NULL, take, &status[i]) == 0);
        /* They look, or sleep, or have not begun. */
        usleep((unsigned)(round % 4 * 5000));
        CHECK(tutti_close(&queue) == TUTTI_OK);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            CHECK(status[i] == TUTTI_ERR_REGION);
        }
    }
    if (failures == 0)
        printf("queue closing: ok\n");
    MPI_Finalize();
    return failures != 0;
}
