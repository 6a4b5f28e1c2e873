/* Rank 0 works on the memory of a rank that stands still (SIGSTOP), of its node or of another one, and lets it go on. Then it works on
 * the same numbers again: whatever the rank finds of the operations before is not done a second time.
 *
 * Where the other machine shares files alone, the argument is a folder of both: a child of rank 1 stops it when rank 0 has made the
 * file "stop" there, says so by "stopped", and lets it go on by "go on". */
#define _POSIX_C_SOURCE 200809L
#include "../../windows/c/stopped.h"
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <tutti.h>
#include <unistd.h>

#define CHECK(holds)                                                                  \
    do {                                                                              \
        if (!(holds)) {                                                               \
            fprintf(stderr, "rank %d, line %d: expected %s\n", me, __LINE__, #holds); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                             \
        }                                                                             \
    } while (0)

/* Less than what travels as one long message. */
enum { ROUNDS = 700, ADDS = 50, THREADS = 3, WRITTEN = 100000, READ = 60000, REGION = 1 << 17 };

static const char *folder;
static int me, pid;
static tutti_region regions[2];

static const char *file(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make(const char *name)
{
    FILE *made = fopen(file(name), "w");
    if (!made)
        exit(1);
    fclose(made);
}

static void pause_1_ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void await(const char *name)
{
    while (access(file(name), F_OK) != 0)
        pause_1_ms();
}

/* Child of rank 1: stops it and lets it go on when files say so. It ends with its parent. */
static void keep(void)
{
    int parent = (int)getpid();
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    await("stop");
    kill(parent, SIGSTOP);
    while (!is_stopped(parent))
        pause_1_ms();
    make("stopped");
    await("go on");
    kill(parent, SIGCONT);
    _exit(0);
}

static void stop(void)
{
    if (folder) {
        make("stop");
        await("stopped");
        return;
    }
    CHECK(kill(pid, SIGSTOP) == 0);
    while (!is_stopped(pid))
        ;
}

static void let_go(void)
{
    if (folder) {
        make("go on");
        return;
    }
    CHECK(is_stopped(pid));
    CHECK(kill(pid, SIGCONT) == 0);
}

/* Several threads wait for answers of the same rank. */
static void *add(void *nothing)
{
    for (int round = 0; round < ADDS; round++) {
        int64_t found = -1;
        CHECK(tutti_fetch_add(&regions[1], 16, 1, &found, TUTTI_WAIT) == TUTTI_OK && found >= round);
    }
    return nothing;
}

/* A thread that waits for something else meanwhile. */
static void *await_message(void *nothing)
{
    int number = 0;
    MPI_Recv(&number, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(number == 5);
    return nothing;
}

int main(int argc, char **argv)
{
    tutti_region queues[2];
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level < MPI_THREAD_MULTIPLE)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    pid = (int)getpid();
    if (argc > 1) {
        folder = argv[1];
        if (me == 1)
            keep();
    }
    int64_t *memory = tutti_alloc(REGION), found = -1;
    tutti_region own, queue;
    CHECK(tutti_open(memory, REGION, TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC, &own) == TUTTI_OK);
    CHECK(tutti_queue_open(64, &queue) == TUTTI_OK);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, regions, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Allgather(&queue, sizeof queue, MPI_BYTE, queues, sizeof queue, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Bcast(&pid, 1, MPI_INT, 1, MPI_COMM_WORLD);
    if (me == 0) {
        static char text[WRITTEN], back[READ];
        for (int at = 0; at < WRITTEN; at++)
            text[at] = (char)(at * 7 / 3);
        stop();
        pthread_t other, threads[THREADS];
        CHECK(pthread_create(&other, NULL, await_message, NULL) == 0);
        for (int round = 0; round < ROUNDS; round++)
            CHECK(tutti_fetch_add(&regions[1], 0, 1, &found, TUTTI_WAIT) == TUTTI_OK && found == round);
        CHECK(tutti_compare_swap(&regions[1], 8, 0, 5, &found, TUTTI_WAIT) == TUTTI_OK && found == 0);
        /* A record is what a datagram of the network holds: these are many between machines. */
        CHECK(tutti_write(&regions[1], 24, text, WRITTEN, TUTTI_WAIT) == TUTTI_OK);
        CHECK(tutti_read(&regions[1], 24 + WRITTEN - READ, back, READ, TUTTI_WAIT) == TUTTI_OK);
        CHECK(memcmp(text + WRITTEN - READ, back, READ) == 0);
        for (int thread = 0; thread < THREADS; thread++)
            CHECK(pthread_create(&threads[thread], NULL, add, NULL) == 0);
        for (int thread = 0; thread < THREADS; thread++)
            CHECK(pthread_join(threads[thread], NULL) == 0);
        CHECK(MPI_Send(&(int){5}, 1, MPI_INT, 0, 1, MPI_COMM_SELF) == 0);
        CHECK(pthread_join(other, NULL) == 0);
        CHECK(tutti_put(&queues[1], "go on", 5, TUTTI_WAIT) == TUTTI_OK);
        /* Refusals are told too. */
        CHECK(tutti_write(&regions[1], REGION - 2, text, 4, TUTTI_WAIT) == TUTTI_ERR_RANGE);
        CHECK(tutti_put(&regions[1], text, 4, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
        let_go();
        for (int round = ROUNDS; round < ROUNDS + 200; round++)
            CHECK(tutti_fetch_add(&regions[1], 0, 1, &found, TUTTI_WAIT) == TUTTI_OK && found == round);
    } else {
        char message[64];
        size_t bytes = sizeof message;
        int from;
        CHECK(tutti_take(&queue, message, &bytes, &from, 1) == TUTTI_OK && from == 0 && bytes == 5);
        CHECK(memory[0] >= ROUNDS && memory[1] == 5 && memory[2] == THREADS * ADDS);
        bytes = sizeof message;
        CHECK(tutti_take(&queue, message, &bytes, &from, 0) == TUTTI_EMPTY);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 1) {
        CHECK(memory[0] == ROUNDS + 200 && memory[2] == THREADS * ADDS);
        puts("stopped: ok");
    }
    MPI_Finalize();
    return 0;
}
