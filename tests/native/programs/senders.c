/* Two threads of rank 0 and a function of a signal put messages of many packets into one queue of another node. */
#include "check.h"
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

enum { SENDERS = 3, MESSAGES = 20, LONGEST = 1000000 };
static const size_t lengths[SENDERS] = {LONGEST, 150000, 8};
static tutti_region queue;

static void *put_all(void *argument)
{
    int sender = *(int *)argument;
    char *message = malloc(lengths[sender]);
    memset(message, 1 + sender, lengths[sender]);
    for (int sent = 0; sent < MESSAGES && !failures;) {
        int status = tutti_put(&queue, message, lengths[sender], TUTTI_WAIT);
        CHECK(status == TUTTI_OK || status == TUTTI_ERR_FULL);
        sent += status == TUTTI_OK;
    }
    if (failures)
        MPI_Abort(MPI_COMM_WORLD, 1);
    free(message);
    return NULL;
}

static void start(const void *data, size_t bytes, int from, void *context)
{
    int sender = SENDERS - 1;
    (void)data, (void)bytes, (void)from, (void)context;
    put_all(&sender);
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 1)
        CHECK(tutti_queue_open(3 * LONGEST, &queue) == TUTTI_OK);
    MPI_Bcast(&queue, sizeof queue, MPI_BYTE, 1, MPI_COMM_WORLD);
    if (me == 0) {
        int numbers[SENDERS - 1];
        pthread_t threads[SENDERS - 1];
        tutti_region signal;
        CHECK(tutti_signal_open(8, start, NULL, &signal) == TUTTI_OK);
        for (int i = 0; i < SENDERS - 1; i++) {
            numbers[i] = i;
            CHECK(pthread_create(&threads[i], NULL, put_all, &numbers[i]) == 0);
        }
        CHECK(tutti_put(&signal, "", 1, TUTTI_WAIT) == TUTTI_OK);
        for (int i = 0; i < SENDERS - 1; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(tutti_close(&signal) == TUTTI_OK);
    } else {
        char *message = malloc(LONGEST);
        int counts[SENDERS] = {0};
        for (int left = SENDERS * MESSAGES; left > 0; left--) {
            size_t bytes = LONGEST;
            int from;
            CHECK(tutti_take(&queue, message, &bytes, &from, 1) == TUTTI_OK);
            int sender = message[0] - 1;
            if (sender < 0 || sender >= SENDERS || bytes != lengths[sender] || memcmp(message, message + 1, bytes - 1)) {
                CHECK(!"a message is whole");
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            counts[sender]++;
        }
        for (int i = 0; i < SENDERS; i++)
            CHECK(counts[i] == MESSAGES);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!failures)
            puts("senders: ok");
        free(message);
    }
    MPI_Finalize();
    return failures > 0;
}
