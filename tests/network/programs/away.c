/*
 * A rank that is away from MPI: its service thread sleeps while there is nothing to do, and nothing is left undone.
 *
 *   away messages FILE    rank 0 sends or posts something each time its service thread sleeps, and comes back to MPI when rank 1 has said
 *                         in FILE that it came or went
 *   away still            nobody does anything: how often the service thread wakes up in a second
 *   away leave            the main thread ends behind MPI_Finalize, and nothing of the library keeps the process
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 24, SMALL = 64, LARGE = 300000, SECONDS_MAX = 60 };

static char out[LARGE], in[LARGE];

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "away: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Long enough for the service thread to fall asleep, without a look at the network. */
static void rest(void) {
    usleep(40000);
}

static void check_filled(const char *buffer, int bytes, int round) {
    for (int i = 0; i < bytes; i++) {
        check(buffer[i] == (char)(round + i), "a byte is wrong");
    }
}

static void fill(char *buffer, int bytes, int round) {
    for (int i = 0; i < bytes; i++) {
        buffer[i] = (char)(round + i);
    }
}

/* Rank 0, without a look: until rank 1 has come so far. */
static void await_other(const atomic_int *done, int round) {
    while (atomic_load(done) < round + 1) {
        usleep(1000);
    }
}

static void rank0(int round, const atomic_int *done) {
    MPI_Request request;
    rest();
    if (round % 3 == 0) {
        fill(out, SMALL, round);
        MPI_Send(out, SMALL, MPI_CHAR, 1, round, MPI_COMM_WORLD);
        await_other(done, round);
    } else if (round % 3 == 1) {
        fill(out, LARGE, round);
        MPI_Isend(out, LARGE, MPI_CHAR, 1, round, MPI_COMM_WORLD, &request);
        await_other(done, round);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(in, LARGE, MPI_CHAR, 1, round, MPI_COMM_WORLD, &request);
        await_other(done, round);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_filled(in, LARGE, round);
    }
}

static void rank1(int round, atomic_int *done) {
    if (round % 3 == 2) {
        rest();
        rest();
        fill(out, LARGE, round);
        MPI_Ssend(out, LARGE, MPI_CHAR, 0, round, MPI_COMM_WORLD);
    } else {
        int bytes = round % 3 == 0 ? SMALL : LARGE;
        MPI_Recv(in, bytes, MPI_CHAR, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_filled(in, bytes, round);
    }
    atomic_store(done, round + 1);
}

static void messages(int rank, const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    check(file >= 0 && ftruncate(file, 4096) == 0, "no file");
    atomic_int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(done != MAP_FAILED, "no memory");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            rank0(round, done);
        } else {
            rank1(round, done);
        }
    }
}

/* How often the service thread of this process has gone to sleep so far. */
static long sleeps(void) {
    DIR *tasks = opendir("/proc/self/task");
    check(tasks != NULL, "no /proc");
    long found = -1;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], line[200];
        int is_ours = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            is_ours |= strcmp(line, "Name:\ttutti-net\n") == 0;
            if (is_ours) {
                sscanf(line, "voluntary_ctxt_switches: %ld", &found);
            }
        }
        if (status != NULL) {
            fclose(status);
        }
    }
    closedir(tasks);
    return found;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(argc > 1, "messages FILE, still, or leave");
    if (strcmp(argv[1], "leave") == 0) {
        rest();
        MPI_Finalize();
        pthread_exit(NULL);
    }
    if (strcmp(argv[1], "messages") == 0) {
        check(argc > 2, "messages FILE");
        messages(rank, argv[2]);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        /* What the barrier leaves behind is acknowledged at last, however late a rank gets a core. */
        long woken = -1;
        for (int second = 0; second < SECONDS_MAX; second++) {
            long before = sleeps();
            usleep(1000000);
            if (before < 0)
                continue; /* It has no name before it has run. */
            woken = sleeps() - before;
            if (woken <= 10)
                break;
        }
        check(woken >= 0, "it has no service thread");
        printf("away: rank %d woke up %ld times\n", rank, woken);
        check(woken <= 10, "the service thread wakes up for nothing");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("away: all right\n");
    }
    MPI_Finalize();
    return 0;
}
