/* Waits for what is no rank are no deadlock: rank 0 waits for a generalized request that a thread of its own
 * completes late, all other ranks wait for rank 0. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int release(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void *finish(void *argument)
{
    struct timespec pause = {0, 500000000};
    nanosleep(&pause, NULL);
    MPI_Grequest_complete(*(MPI_Request *)argument);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, rank, size, token = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        pthread_t thread;
        MPI_Request requests[2], handle;
        MPI_Grequest_start(query, release, cancel, NULL, &handle);
        requests[0] = handle;
        MPI_Irecv(&token, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]);
        pthread_create(&thread, NULL, finish, &handle);
        if (argc > 1 && strcmp(argv[1], "all") == 0)
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        else if (argc > 1 && strcmp(argv[1], "some") == 0) {
            int count, which[2];
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            MPI_Waitsome(2, requests, &count, which, MPI_STATUSES_IGNORE);
        } else {
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        }
        pthread_join(thread, NULL);
        for (int to = 1; to < size; to++)
            MPI_Send(&token, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
        printf("completed\n");
    } else {
        MPI_Recv(&token, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
