/*
 * Operations that move data: every function does one of them with random sizes and roots, blocking or not.
 */
#ifndef TUTTI_MOVEMENT_H
#define TUTTI_MOVEMENT_H

#include "draws.h"

static inline void broadcast(MPI_Comm comm, int rank, int size, bool nb) {
    int root = below(size), count = random_count();
    uint64_t salt = draw();
    int *data = allocate((size_t)count * sizeof(int));
    MPI_Request request;
    stage = nb ? "ibcast" : "bcast";
    if (rank == root) {
        fill_ints(data, count, salt, root, 0);
    }
    nb ? MPI_Ibcast(data, count, MPI_INT, root, comm, &request) : MPI_Bcast(data, count, MPI_INT, root, comm);
    finish(&request, nb);
    check_ints(data, count, salt, root, 0);
    free(data);
}

static inline void gather(MPI_Comm comm, int rank, int size, bool nb) {
    int root = below(size), count = random_count() / 4;
    bool in_place = below(2) == 0;
    uint64_t salt = draw();
    int *all = allocate((size_t)count * (size_t)size * sizeof(int)), *mine = allocate((size_t)count * sizeof(int));
    MPI_Request request;
    stage = nb ? "igather" : "gather";
    fill_ints(mine, count, salt, rank, 0);
    fill_ints(all + rank * count, count, salt, rank, 0);
    const void *send = in_place && rank == root ? MPI_IN_PLACE : mine;
    nb ? MPI_Igather(send, count, MPI_INT, all, count, MPI_INT, root, comm, &request)
       : MPI_Gather(send, count, MPI_INT, all, count, MPI_INT, root, comm);
    finish(&request, nb);
    for (int from = 0; rank == root && from < size; from++) {
        check_ints(all + from * count, count, salt, from, 0);
    }
    free(all);
    free(mine);
}

static inline void scatter(MPI_Comm comm, int rank, int size, bool nb) {
    int root = below(size), count = random_count() / 4;
    bool in_place = below(2) == 0;
    uint64_t salt = draw();
    int *all = allocate((size_t)count * (size_t)size * sizeof(int)), *mine = allocate((size_t)count * sizeof(int));
    MPI_Request request;
    stage = nb ? "iscatter" : "scatter";
    for (int to = 0; to < size; to++) {
        fill_ints(all + to * count, count, salt, to, 0);
    }
    void *receive = in_place && rank == root ? MPI_IN_PLACE : mine;
    nb ? MPI_Iscatter(all, count, MPI_INT, receive, count, MPI_INT, root, comm, &request)
       : MPI_Scatter(all, count, MPI_INT, receive, count, MPI_INT, root, comm);
    finish(&request, nb);
    if (receive != MPI_IN_PLACE) {
        check_ints(mine, count, salt, rank, 0);
    }
    free(all);
    free(mine);
}

static inline void allgather(MPI_Comm comm, int rank, int size, bool nb) {
    int count = random_count() / 4;
    bool in_place = below(2) == 0;
    uint64_t salt = draw();
    int *all = allocate((size_t)count * (size_t)size * sizeof(int)), *mine = allocate((size_t)count * sizeof(int));
    MPI_Request request;
    stage = nb ? "iallgather" : "allgather";
    fill_ints(mine, count, salt, rank, 0);
    fill_ints(all + rank * count, count, salt, rank, 0);
    const void *send = in_place ? MPI_IN_PLACE : mine;
    nb ? MPI_Iallgather(send, count, MPI_INT, all, count, MPI_INT, comm, &request)
       : MPI_Allgather(send, count, MPI_INT, all, count, MPI_INT, comm);
    finish(&request, nb);
    for (int from = 0; from < size; from++) {
        check_ints(all + from * count, count, salt, from, 0);
    }
    free(all);
    free(mine);
}

static inline void alltoall(MPI_Comm comm, int rank, int size, bool nb) {
    int count = random_count() / 8;
    bool in_place = below(2) == 0;
    uint64_t salt = draw();
    size_t bytes = (size_t)count * (size_t)size * sizeof(int);
    int *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request request;
    stage = nb ? "ialltoall" : "alltoall";
    for (int to = 0; to < size; to++) {
        fill_ints((in_place ? in : out) + to * count, count, salt, rank, to * 100);
    }
    const void *send = in_place ? MPI_IN_PLACE : out;
    nb ? MPI_Ialltoall(send, count, MPI_INT, in, count, MPI_INT, comm, &request)
       : MPI_Alltoall(send, count, MPI_INT, in, count, MPI_INT, comm);
    finish(&request, nb);
    for (int from = 0; from < size; from++) {
        check_ints(in + from * count, count, salt, from, rank * 100);
    }
    free(out);
    free(in);
}

/* Counts and displacements with gaps, in an order of their own. */
static inline int lay_out(int size, int *counts, int *displacements) {
    int at = 0;
    for (int i = 0; i < size; i++) {
        counts[i] = below(4) == 0 ? 0 : random_count() / 8;
    }
    for (int i = size - 1; i >= 0; i--) {
        displacements[i] = at;
        at += counts[i] + below(3);
    }
    return at;
}

static inline void gatherv(MPI_Comm comm, int rank, int size, bool nb) {
    int root = below(size), counts[MAX_RANKS], displacements[MAX_RANKS];
    int whole = lay_out(size, counts, displacements);
    bool in_place = below(2) == 0;
    uint64_t salt = draw();
    int *all = allocate((size_t)whole * sizeof(int)), *mine = allocate((size_t)counts[rank] * sizeof(int));
    MPI_Request request;
    stage = nb ? "igatherv" : "gatherv";
    fill_ints(mine, counts[rank], salt, rank, 0);
    fill_ints(all + displacements[rank], counts[rank], salt, rank, 0);
    const void *send = in_place && rank == root ? MPI_IN_PLACE : mine;
    nb ? MPI_Igatherv(send, counts[rank], MPI_INT, all, counts, displacements, MPI_INT, root, comm, &request)
       : MPI_Gatherv(send, counts[rank], MPI_INT, all, counts, displacements, MPI_INT, root, comm);
    finish(&request, nb);
    for (int from = 0; rank == root && from < size; from++) {
        check_ints(all + displacements[from], counts[from], salt, from, 0);
    }
    free(all);
    free(mine);
}

static inline void scatterv(MPI_Comm comm, int rank, int size, bool nb) {
    int root = below(size), counts[MAX_RANKS], displacements[MAX_RANKS];
    int whole = lay_out(size, counts, displacements);
    bool in_place = below(2) == 0;
    uint64_t salt = draw();
    int *all = allocate((size_t)whole * sizeof(int)), *mine = allocate((size_t)counts[rank] * sizeof(int));
    MPI_Request request;
    stage = nb ? "iscatterv" : "scatterv";
    for (int to = 0; to < size; to++) {
        fill_ints(all + displacements[to], counts[to], salt, to, 0);
    }
    void *receive = in_place && rank == root ? MPI_IN_PLACE : mine;
    nb ? MPI_Iscatterv(all, counts, displacements, MPI_INT, receive, counts[rank], MPI_INT, root, comm, &request)
       : MPI_Scatterv(all, counts, displacements, MPI_INT, receive, counts[rank], MPI_INT, root, comm);
    finish(&request, nb);
    if (receive != MPI_IN_PLACE) {
        check_ints(mine, counts[rank], salt, rank, 0);
    }
    free(all);
    free(mine);
}

static inline void allgatherv(MPI_Comm comm, int rank, int size, bool nb) {
    int counts[MAX_RANKS], displacements[MAX_RANKS];
    int whole = lay_out(size, counts, displacements);
    bool in_place = below(2) == 0;
    uint64_t salt = draw();
    int *all = allocate((size_t)whole * sizeof(int)), *mine = allocate((size_t)counts[rank] * sizeof(int));
    MPI_Request request;
    stage = nb ? "iallgatherv" : "allgatherv";
    fill_ints(mine, counts[rank], salt, rank, 0);
    fill_ints(all + displacements[rank], counts[rank], salt, rank, 0);
    const void *send = in_place ? MPI_IN_PLACE : mine;
    nb ? MPI_Iallgatherv(send, counts[rank], MPI_INT, all, counts, displacements, MPI_INT, comm, &request)
       : MPI_Allgatherv(send, counts[rank], MPI_INT, all, counts, displacements, MPI_INT, comm);
    finish(&request, nb);
    for (int from = 0; from < size; from++) {
        check_ints(all + displacements[from], counts[from], salt, from, 0);
    }
    free(all);
    free(mine);
}

/* Rank a sends (a + 2 b + shift) mod 11, scaled, elements to rank b. In place the table must be symmetric. */
static inline int pair_count(int a, int b, int shift, bool symmetric) {
    int n = symmetric ? (a + b + shift) % 11 : (a + 2 * b + shift) % 11;
    return n * n * (shift % 7 == 0 ? 97 : 3);
}

static inline void alltoallvw(MPI_Comm comm, int rank, int size, bool nb) {
    int shift = below(1000), out_at = 0, in_at = 0;
    bool in_place = below(2) == 0, typed = below(2) == 0;
    int out_counts[MAX_RANKS], out_displacements[MAX_RANKS], in_counts[MAX_RANKS], in_displacements[MAX_RANKS];
    MPI_Datatype types[MAX_RANKS];
    uint64_t salt = draw();
    int unit = typed ? (int)sizeof(int) : 1;
    for (int i = 0; i < size; i++) {
        out_counts[i] = pair_count(rank, i, shift, in_place);
        in_counts[i] = pair_count(i, rank, shift, in_place);
        out_displacements[i] = out_at * unit;
        in_displacements[i] = in_at * unit;
        out_at += out_counts[i] + i % 2;
        in_at += in_counts[i] + i % 3;
        types[i] = MPI_INT;
    }
    int *out = allocate((size_t)out_at * sizeof(int)), *in = allocate((size_t)in_at * sizeof(int));
    MPI_Request request;
    stage = nb ? (typed ? "ialltoallw" : "ialltoallv") : typed ? "alltoallw" : "alltoallv";
    for (int to = 0; to < size; to++) {
        int at = (in_place ? in_displacements : out_displacements)[to] / unit;
        fill_ints((in_place ? in : out) + at, out_counts[to], salt, rank, to * 100);
    }
    const void *send = in_place ? MPI_IN_PLACE : out;
    if (typed) {
        nb ? MPI_Ialltoallw(send, out_counts, out_displacements, types, in, in_counts, in_displacements, types, comm,
                            &request)
           : MPI_Alltoallw(send, out_counts, out_displacements, types, in, in_counts, in_displacements, types, comm);
    } else {
        nb ? MPI_Ialltoallv(send, out_counts, out_displacements, MPI_INT, in, in_counts, in_displacements, MPI_INT,
                            comm, &request)
           : MPI_Alltoallv(send, out_counts, out_displacements, MPI_INT, in, in_counts, in_displacements, MPI_INT,
                           comm);
    }
    finish(&request, nb);
    for (int from = 0; from < size; from++) {
        check_ints(in + in_displacements[from] / unit, in_counts[from], salt, from, rank * 100);
    }
    free(out);
    free(in);
}


static inline void barrier(MPI_Comm comm, int rank, int size, bool nb) {
    MPI_Request request;
    (void)rank;
    (void)size;
    stage = nb ? "ibarrier" : "barrier";
    nb ? MPI_Ibarrier(comm, &request) : MPI_Barrier(comm);
    finish(&request, nb);
}

#endif
