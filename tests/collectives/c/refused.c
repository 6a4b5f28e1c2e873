/*
 * Large collective operations where the kernel refuses single copies to one rank: results are right all the same.
 *
 *   refused first    before the first operation
 *   refused later    after every communicator has used them
 */
#define _GNU_SOURCE
#include "refuse.h"
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 50000, COMMS = 5 };

static int rank, ranks;
static int *in, *out;

static void fail(const char *what, int at, int found, int expected) {
    fprintf(stderr, "refused: rank %d: %s: place %d: %d instead of %d\n", rank, what, at, found, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void refuse(void) {
    if (refuse_single_copies() != 0) {
        fprintf(stderr, "refused: no seccomp filter: %s\n", strerror(errno));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int value(int from, int i) {
    return (from + 1) * 100003 + i;
}

static void bcast(MPI_Comm comm) {
    for (int i = 0; i < COUNT; i++) {
        out[i] = rank == 0 ? value(7, i) : -1;
    }
    MPI_Bcast(out, COUNT, MPI_INT, 0, comm);
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != value(7, i)) {
            fail("bcast", i, out[i], value(7, i));
        }
    }
}

static void allgather(MPI_Comm comm) {
    for (int i = 0; i < COUNT; i++) {
        in[i] = value(rank, i);
    }
    MPI_Allgather(in, COUNT, MPI_INT, out, COUNT, MPI_INT, comm);
    for (int i = 0; i < COUNT * ranks; i++) {
        if (out[i] != value(i / COUNT, i % COUNT)) {
            fail("allgather", i, out[i], value(i / COUNT, i % COUNT));
        }
    }
}

static void alltoall(MPI_Comm comm, int in_place) {
    int *send = in_place ? out : in;
    for (int i = 0; i < COUNT * ranks; i++) {
        send[i] = value(rank * 100 + i / COUNT, i % COUNT);
    }
    MPI_Alltoall(in_place ? MPI_IN_PLACE : in, COUNT, MPI_INT, out, COUNT, MPI_INT, comm);
    for (int i = 0; i < COUNT * ranks; i++) {
        int expected = value(i / COUNT * 100 + rank, i % COUNT);
        if (out[i] != expected) {
            fail("alltoall", i, out[i], expected);
        }
    }
}

static void allreduce(MPI_Comm comm, int in_place, int expected_class) {
    for (int i = 0; i < COUNT; i++) {
        in[i] = out[i] = value(rank, i % 1000);
    }
    int class = MPI_SUCCESS;
    int code = MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, COUNT, MPI_INT, MPI_SUM, comm);
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
    }
    if (class != expected_class) {
        fail("class of allreduce", 0, class, expected_class);
    }
    for (int i = 0; class == MPI_SUCCESS && i < COUNT; i++) {
        int sum = ranks * (ranks + 1) / 2 * 100003 + ranks * (i % 1000);
        if (out[i] != sum) {
            fail("allreduce", i, out[i], sum);
        }
    }
}

int main(int argc, char **argv) {
    MPI_Comm comms[COMMS];
    int later = argc > 1 && strcmp(argv[1], "later") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    in = malloc(sizeof(int) * COUNT * (size_t)ranks);
    out = malloc(sizeof(int) * COUNT * (size_t)ranks);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
        if (later) {
            allreduce(comms[i], i % 2, MPI_SUCCESS);
        }
    }
    if (rank == ranks - 1) {
        refuse();
    }
    /* On each the refusal is met by another operation; what follows goes the other way from the start. */
    bcast(comms[0]);
    allgather(comms[1]);
    alltoall(comms[2], 1);
    alltoall(comms[3], 0);
    /* In place, what others have contributed may be overwritten before a rank is refused. */
    allreduce(comms[4], 1, later ? MPI_ERR_BUFFER : MPI_SUCCESS);
    for (int i = 0; i < COMMS; i++) {
        bcast(comms[i]);
        allgather(comms[i]);
        alltoall(comms[i], 1);
        allreduce(comms[i], 0, MPI_SUCCESS);
        allreduce(comms[i], 1, MPI_SUCCESS);
        MPI_Comm_free(&comms[i]);
    }
    if (rank == 0) {
        printf("refused: all right\n");
    }
    MPI_Finalize();
    return 0;
}
