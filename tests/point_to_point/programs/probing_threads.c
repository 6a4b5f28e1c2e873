/*
 * Threads of rank 0 wait in MPI_Mprobe or MPI_Probe for messages of one tag from one sender. Several wait for the same message;
 * one takes it, the others wait on. Every message is received once.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, MESSAGES = 600, TAG = 5, LONGEST = 64 << 10, STOP = -1 };

static const int sizes[] = {4, 100, 8 << 10, LONGEST};
static int received[MESSAGES], source;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int size_of(int number) {
    return number == STOP ? 4 : sizes[number % (int)(sizeof sizes / sizeof *sizes)];
}

/* Receives a message taken out of matching; whether it was one that ends a thread. */
static int take(MPI_Message *message, MPI_Status *found, int *buffer) {
    int bytes;
    MPI_Status status;
    MPI_Mrecv(buffer, LONGEST, MPI_BYTE, message, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (*buffer == STOP) {
        return 1;
    }
    if (*buffer < 0 || *buffer >= MESSAGES || bytes != size_of(*buffer)) {
        fail("a message has wrong contents");
    }
    MPI_Get_count(found, MPI_BYTE, &bytes);
    if (bytes != size_of(*buffer) || found->MPI_TAG != TAG) {
        fail("the probe described another message than the one received");
    }
    pthread_mutex_lock(&lock);
    received[*buffer]++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void *with_mprobe(void *unused) {
    int *buffer = malloc(LONGEST), stops = 0;
    while (!stops) {
        MPI_Message message;
        MPI_Status found;
        MPI_Mprobe(source, TAG, MPI_COMM_WORLD, &message, &found);
        stops = take(&message, &found, buffer);
    }
    free(buffer);
    return unused;
}

static void *with_probe(void *unused) {
    int *buffer = malloc(LONGEST), stops = 0;
    while (!stops) {
        int flag;
        MPI_Message message;
        MPI_Status found;
        MPI_Probe(source, TAG, MPI_COMM_WORLD, &found);
        if (found.MPI_TAG != TAG) {
            fail("MPI_Probe found a message with another tag");
        }
        MPI_Improbe(source, TAG, MPI_COMM_WORLD, &flag, &message, &found);
        if (flag) {
            stops = take(&message, &found, buffer);
        }
    }
    free(buffer);
    return unused;
}

static void receive_all(void *(*receiver)(void *), int from) {
    pthread_t threads[THREADS];
    source = from;
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, receiver, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < MESSAGES; i++) {
        if (received[i] != 1) {
            fail("a message was not received exactly once");
        }
        received[i] = 0;
    }
}

static void send_all(void) {
    int *buffer = calloc(1, LONGEST);
    for (int i = 0; i < MESSAGES; i++) {
        *buffer = i;
        MPI_Send(buffer, size_of(i), MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        if (i % 50 == 0) {
            /* All threads of the receiver wait again. */
            MPI_Ssend(NULL, 0, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD);
        }
    }
    *buffer = STOP;
    for (int i = 0; i < THREADS; i++) {
        MPI_Send(buffer, size_of(STOP), MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
    free(buffer);
}

static void *take_synchronous(void *unused) {
    for (int i = 0; i < MESSAGES; i += 50) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return unused;
}

int main(int argc, char **argv) {
    static void *(*const receivers[])(void *) = {with_mprobe, with_probe};
    int rank, level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 4; i++) {
        if (rank == 1) {
            send_all();
        } else {
            pthread_t other;
            pthread_create(&other, NULL, take_synchronous, NULL);
            receive_all(receivers[i % 2], i < 2 ? 1 : MPI_ANY_SOURCE);
            pthread_join(other, NULL);
        }
    }
    MPI_Finalize();
    if (rank == 0) {
        puts("probing threads: all right");
    }
    return 0;
}
