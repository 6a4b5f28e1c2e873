/*
 * Collective operations on intercommunicators.
 */
#ifndef TUTTI_BETWEEN_GROUPS_H
#define TUTTI_BETWEEN_GROUPS_H

#include "draws.h"

/* Two groups, the ranks below `border` and the others. */
static inline void between_groups(int border, bool nb) {
    MPI_Comm half, inter;
    MPI_Request request;
    bool low = world_rank < border;
    int rank, size, others, root, count = random_count() / 4;
    uint64_t salt = draw();
    MPI_Comm_split(MPI_COMM_WORLD, low, world_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? border : 0, 17, &inter);
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &others);
    /* A rank of the lower group is the root. */
    int root_rank = below(border);
    /* MPICH 5.0.2, MPI_Ibcast from 2 to 2 ranks: nothing arrives from a root that is not the first of its group. */
    root_rank = common && nb ? 0 : root_rank;
    root = !low ? root_rank : rank == root_rank ? MPI_ROOT : MPI_PROC_NULL;
    int most = others > size ? others : size;
    size_t bytes = (size_t)count * (size_t)most * (size_t)most * sizeof(int);
    int *in = allocate(bytes), *out = allocate(bytes);
    int me = low ? rank : 100 + rank;
    /* What rank r of the other group calls itself. */
#define OTHER(r) (low ? 100 + (r) : (r))

    stage = "barrier between groups";
    nb ? MPI_Ibarrier(inter, &request) : MPI_Barrier(inter);
    finish(&request, nb);

    stage = "bcast between groups";
    fill_ints(in, count, salt, me, 0);
    int *data = root == MPI_ROOT ? in : out;
    nb ? MPI_Ibcast(data, count, MPI_INT, root, inter, &request) : MPI_Bcast(data, count, MPI_INT, root, inter);
    finish(&request, nb);
    if (!low) {
        check_ints(out, count, salt, root_rank, 0);
    }

    stage = "gather between groups";
    nb ? MPI_Igather(in, count, MPI_INT, out, count, MPI_INT, root, inter, &request)
       : MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, root, inter);
    finish(&request, nb);
    for (int r = 0; root == MPI_ROOT && r < others; r++) {
        check_ints(out + r * count, count, salt, OTHER(r), 0);
    }

    stage = "allgather between groups";
    nb ? MPI_Iallgather(in, count, MPI_INT, out, count, MPI_INT, inter, &request)
       : MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, inter);
    finish(&request, nb);
    for (int r = 0; r < others; r++) {
        check_ints(out + r * count, count, salt, OTHER(r), 0);
    }

    stage = "allreduce between groups";
    nb ? MPI_Iallreduce(in, out, count, MPI_INT, MPI_SUM, inter, &request)
       : MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, inter);
    finish(&request, nb);
    for (int i = 0; i < count; i++) {
        int expected = 0;
        for (int r = 0; r < others; r++) {
            expected += value(salt, OTHER(r), i);
        }
        if (out[i] != expected) {
            fail("place %d: %d instead of %d", i, out[i], expected);
        }
    }

    stage = "reduce between groups";
    nb ? MPI_Ireduce(in, out, count, MPI_INT, MPI_MAX, root, inter, &request)
       : MPI_Reduce(in, out, count, MPI_INT, MPI_MAX, root, inter);
    finish(&request, nb);
    for (int i = 0; root == MPI_ROOT && i < count; i++) {
        int expected = 0;
        for (int r = 0; r < others; r++) {
            expected = value(salt, OTHER(r), i) > expected ? value(salt, OTHER(r), i) : expected;
        }
        if (out[i] != expected) {
            fail("place %d: %d instead of %d", i, out[i], expected);
        }
    }

    stage = "scatter between groups";
    for (int r = 0; r < others; r++) {
        fill_ints(in + r * count, count, salt, me, 100 * r);
    }
    nb ? MPI_Iscatter(in, count, MPI_INT, out, count, MPI_INT, root, inter, &request)
       : MPI_Scatter(in, count, MPI_INT, out, count, MPI_INT, root, inter);
    finish(&request, nb);
    if (!low) {
        check_ints(out, count, salt, root_rank, 100 * rank);
    }

    stage = "alltoall between groups";
    nb ? MPI_Ialltoall(in, count, MPI_INT, out, count, MPI_INT, inter, &request)
       : MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, inter);
    finish(&request, nb);
    for (int r = 0; r < others; r++) {
        check_ints(out + r * count, count, salt, OTHER(r), 100 * rank);
    }

    stage = "reduce_scatter_block between groups";
    /* Both groups contribute size * others * count elements. */
    int whole = size * others * count, each = others * count;
    fill_ints(in, whole, salt, me, 0);
    nb ? MPI_Ireduce_scatter_block(in, out, each, MPI_INT, MPI_SUM, inter, &request)
       : MPI_Reduce_scatter_block(in, out, each, MPI_INT, MPI_SUM, inter);
    finish(&request, nb);
    for (int i = 0; i < each; i++) {
        int expected = 0;
        for (int r = 0; r < others; r++) {
            expected += value(salt, OTHER(r), rank * each + i);
        }
        if (out[i] != expected) {
            fail("place %d: %d instead of %d", i, out[i], expected);
        }
    }
    free(in);
    free(out);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

#endif
