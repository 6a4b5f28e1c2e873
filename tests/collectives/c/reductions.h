/*
 * Reductions by a predefined operation, and by one of ours that is associative but not commutative.
 */
#ifndef TUTTI_REDUCTIONS_H
#define TUTTI_REDUCTIONS_H

#include "draws.h"

/* An element is the map x -> a x + b modulo 2^32, a in the upper half; the operation composes two maps. */
static inline uint64_t compose(uint64_t first, uint64_t second) {
    uint32_t a = (uint32_t)(first >> 32), b = (uint32_t)first;
    uint32_t c = (uint32_t)(second >> 32), d = (uint32_t)second;
    return (uint64_t)(uint32_t)(a * c) << 32 | (uint32_t)(c * b + d);
}

static inline void compose_all(void *in, void *inout, int *count, MPI_Datatype *type) {
    const uint64_t *left = in;
    uint64_t *right = inout;
    (void)type;
    for (int i = 0; i < *count; i++) {
        right[i] = compose(left[i], right[i]);
    }
}

static MPI_Op maps;

static inline uint64_t map_value(uint64_t salt, int rank, int i) {
    uint64_t z = salt + (uint64_t)rank * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)i * UINT64_C(0xd1342543de82ef95);
    z = (z ^ (z >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z | UINT64_C(1) << 32;
}

/* What the ranks first..last make at place i. */
static inline uint64_t folded(uint64_t salt, int last, int i, bool user) {
    uint64_t result = map_value(salt, 0, i);
    for (int rank = 1; rank <= last; rank++) {
        result = user ? compose(result, map_value(salt, rank, i)) : result + map_value(salt, rank, i);
    }
    return result;
}

static inline void check_folded(const uint64_t *found, int count, uint64_t salt, int last, int first, bool user) {
    for (int i = 0; i < count; i++) {
        if (found[i] != folded(salt, last, first + i, user)) {
            fail("place %d: %llx instead of %llx", i, (unsigned long long)found[i],
                 (unsigned long long)folded(salt, last, first + i, user));
        }
    }
}

static inline void reduction(MPI_Comm comm, int rank, int size, bool nb) {
    static const char *const names[] = {"allreduce", "reduce", "scan", "exscan", "reduce_scatter_block",
                                        "reduce_scatter"};
    int what = below(6), root = below(size), count = random_count() / (what >= 4 ? 4 : 1), counts[MAX_RANKS];
    int whole = count, first = 0;
    bool in_place = below(2) == 0, user = below(2) == 0;
    uint64_t salt = draw();
    MPI_Op op = user ? maps : MPI_SUM;
    MPI_Request request;
    static char name[64];
    snprintf(name, sizeof name, "%s%s%s%s", nb ? "i" : "", names[what], user ? " with a function" : "",
             in_place ? " in place" : "");
    stage = name;
    if (what == 4) {
        whole = count * size;
        first = count * rank;
    } else if (what == 5) {
        whole = 0;
        for (int i = 0; i < size; i++) {
            first = i == rank ? whole : first;
            counts[i] = below(4) == 0 ? 0 : random_count() / 4;
            whole += counts[i];
        }
        count = counts[rank];
    }
    uint64_t *in = allocate((size_t)whole * sizeof *in), *out = allocate((size_t)whole * sizeof *out);
    if (what == 1 && rank != root) {
        in_place = false;
    }
    for (int i = 0; i < whole; i++) {
        (in_place ? out : in)[i] = map_value(salt, rank, i);
    }
    const void *send = in_place ? MPI_IN_PLACE : (const void *)in;
    const MPI_Datatype type = MPI_UINT64_T;
    switch (what) {
    case 0:
        nb ? MPI_Iallreduce(send, out, count, type, op, comm, &request)
           : MPI_Allreduce(send, out, count, type, op, comm);
        break;
    case 1:
        nb ? MPI_Ireduce(send, out, count, type, op, root, comm, &request)
           : MPI_Reduce(send, out, count, type, op, root, comm);
        break;
    case 2:
        nb ? MPI_Iscan(send, out, count, type, op, comm, &request) : MPI_Scan(send, out, count, type, op, comm);
        break;
    case 3:
        nb ? MPI_Iexscan(send, out, count, type, op, comm, &request) : MPI_Exscan(send, out, count, type, op, comm);
        break;
    case 4:
        nb ? MPI_Ireduce_scatter_block(send, out, count, type, op, comm, &request)
           : MPI_Reduce_scatter_block(send, out, count, type, op, comm);
        break;
    default:
        nb ? MPI_Ireduce_scatter(send, out, counts, type, op, comm, &request)
           : MPI_Reduce_scatter(send, out, counts, type, op, comm);
        break;
    }
    finish(&request, nb);
    int last = what == 2 ? rank : what == 3 ? rank - 1 : size - 1;
    if (last >= 0 && (what != 1 || rank == root)) {
        check_folded(out, count, salt, last, first, user);
    }
    free(in);
    free(out);
}

#endif
