/*
 * What the programs of collective operations share: numbers that all ranks draw alike, what each rank contributes, checks of what
 * has come, and the end of an operation that may block or not.
 *
 * A file that fails says rank, `stage` and place, and ends the job.
 */
#ifndef TUTTI_DRAWS_H
#define TUTTI_DRAWS_H

#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RANKS = 64 };

static uint64_t state;
static int world_rank;
static const char *stage = "start";
/* Leaves out what the standard allows and MPICH 5.0.2 or Open MPI 5.0.11 cannot do; said where it is looked at. */
static bool common;

/* Splitmix: the same on all ranks as long as all draw alike. */
static inline uint64_t draw(void) {
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline int below(int limit) {
    return (int)(draw() % (uint64_t)limit);
}

/* Sizes around the borders of the algorithms, and any others. */
static inline int random_count(void) {
    static const int borders[] = {0, 1, 2, 7, 8, 14, 15, 511, 512, 513, 1024, 1025, 5000, 16384, 16385, 60000};
    switch (below(3)) {
    case 0:
        return borders[below((int)(sizeof borders / sizeof *borders))];
    case 1:
        return below(20);
    default:
        return below(3000);
    }
}

static inline void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "collectives: rank %d: %s: ", world_rank, stage);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static inline void *allocate(size_t bytes) {
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fail("no memory for %zu bytes", bytes);
    }
    memset(memory, 0x5a, bytes > 0 ? bytes : 1);
    return memory;
}

/* What `rank` contributes at place `i` of operation `salt`. */
static inline int value(uint64_t salt, int rank, int i) {
    return (int)((salt * 31 + (uint64_t)rank * 1009 + (uint64_t)i * 7) % 1000003);
}

static inline void check_ints(const int *found, int count, uint64_t salt, int rank, int first) {
    for (int i = 0; i < count; i++) {
        if (found[i] != value(salt, rank, first + i)) {
            fail("piece of rank %d, place %d: %d instead of %d", rank, i, found[i], value(salt, rank, first + i));
        }
    }
}

static inline void fill_ints(int *data, int count, uint64_t salt, int rank, int first) {
    for (int i = 0; i < count; i++) {
        data[i] = value(salt, rank, first + i);
    }
}

static inline void nap(MPI_Comm comm) {
    /* One rank comes late, so that the others run ahead of it. */
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (below(8) == 0) {
        int late = below(size);
        long us = below(4) == 0 ? 3000 : below(200);
        if (rank == late) {
            struct timespec time = {0, us * 1000};
            nanosleep(&time, NULL);
        }
    }
}

static inline void finish(MPI_Request *request, bool nonblocking) {
    if (nonblocking) {
        int done = 0;
        if (below(2) == 0) {
            MPI_Wait(request, MPI_STATUS_IGNORE);
        } else {
            while (!done) {
                MPI_Test(request, &done, MPI_STATUS_IGNORE);
            }
        }
    }
}

#endif
