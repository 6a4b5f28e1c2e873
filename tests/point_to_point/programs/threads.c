/*
 * MPI_THREAD_MULTIPLE: threads of a rank wait at the same time, some for each other, some long enough to sleep.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 300, LATE = 1000 };

static int rank;

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Every thread plays ping-pong with its partner of the same tag on the other rank. */
static void *ping_pong(void *argument) {
    int tag = *(int *)argument, value;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 100 == 99 && tag == 1 && rank == 0) {
            pause_ms(5);
        }
        if (rank == 0) {
            MPI_Send(&i, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_INT, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
        }
        if (value != i) {
            fail("a thread got another's message");
        }
    }
    return NULL;
}

/* Sent by the same process to a thread that is asleep in MPI_Recv by then. */
static void *send_to_self(void *argument) {
    pause_ms(20);
    MPI_Send(argument, 1, MPI_INT, 0, 77, MPI_COMM_SELF);
    return NULL;
}

/* Waits for something that comes when the others have long been through: it sleeps while they come and go. */
static void *wait_long(void *argument) {
    int tag = *(int *)argument, value;
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, LATE + tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (value != tag) {
        fail("a late message was wrong");
    }
    return NULL;
}

/* The same for an operation that goes on only while somebody waits. */
static void *wait_for_barrier(void *argument) {
    MPI_Request request;
    MPI_Ibarrier(*(MPI_Comm *)argument, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return NULL;
}

/* Threads that sleep, one behind the other, while one plays ping-pong; then all of them are woken, in any order. */
static void sleepers_and_a_player(void) {
    pthread_t sleepers[THREADS], third;
    int tags[THREADS];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < THREADS; i++) {
            tags[i] = i;
            pthread_create(&sleepers[i], NULL, wait_long, &tags[i]);
        }
        if (rank == 0) {
            pthread_create(&third, NULL, wait_for_barrier, &comm);
        }
        if (round % 4 == 0) {
            pause_ms(3);
        }
        int player = 50 + round % 2;
        ping_pong(&player);
        for (int i = 0; i < THREADS; i++) {
            int tag = (i * 3 + round) % THREADS;
            MPI_Send(&tag, 1, MPI_INT, 1 - rank, LATE + tag, MPI_COMM_WORLD);
        }
        if (rank == 0) {
            pthread_join(third, NULL);
        } else {
            wait_for_barrier(&comm);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(sleepers[i], NULL);
        }
    }
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int tags[THREADS], level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (level != MPI_THREAD_MULTIPLE) {
        fail("MPI_THREAD_MULTIPLE was not given");
    }
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        pthread_create(&threads[i], NULL, ping_pong, &tags[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    sleepers_and_a_player();
    int out = 5, in = 0;
    pthread_create(&threads[0], NULL, send_to_self, &out);
    MPI_Recv(&in, 1, MPI_INT, 0, 77, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    pthread_join(threads[0], NULL);
    if (in != 5) {
        fail("a message to self was wrong");
    }
    MPI_Finalize();
    if (rank == 0) {
        puts("threads: all right");
    }
    return 0;
}
