/*
 * Collective operations against results computed by each rank alone.
 *
 *   collectives [SEED [ROUNDS]]
 *
 * All ranks draw the same random numbers, so each knows what every rank contributes and what it must get. Any deviation is
 * printed with rank, operation and place, and ends the job. The program uses the standard only; it runs on every MPI.
 */
#define _POSIX_C_SOURCE 200809L
#include <complex.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RANKS = 64, MAX_COMMS = 4 };

static uint64_t state;
static int world_rank;
static const char *stage = "start";

/* Splitmix: the same on all ranks as long as all draw alike. */
static uint64_t draw(void) {
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int below(int limit) {
    return (int)(draw() % (uint64_t)limit);
}

/* Sizes around the borders of the algorithms, and any others. */
static int random_count(void) {
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

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "collectives: rank %d: %s: ", world_rank, stage);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fail("no memory for %zu bytes", bytes);
    }
    memset(memory, 0x5a, bytes > 0 ? bytes : 1);
    return memory;
}

/* What `rank` contributes at place `i` of operation `salt`. */
static int value(uint64_t salt, int rank, int i) {
    return (int)((salt * 31 + (uint64_t)rank * 1009 + (uint64_t)i * 7) % 1000003);
}

static void check_ints(const int *found, int count, uint64_t salt, int rank, int first) {
    for (int i = 0; i < count; i++) {
        if (found[i] != value(salt, rank, first + i)) {
            fail("piece of rank %d, place %d: %d instead of %d", rank, i, found[i], value(salt, rank, first + i));
        }
    }
}

static void fill_ints(int *data, int count, uint64_t salt, int rank, int first) {
    for (int i = 0; i < count; i++) {
        data[i] = value(salt, rank, first + i);
    }
}

static void nap(MPI_Comm comm) {
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

/* ---- data movement: every function below does one random operation, blocking or not ---- */

static void finish(MPI_Request *request, bool nonblocking) {
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

static void broadcast(MPI_Comm comm, int rank, int size, bool nb) {
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

static void gather(MPI_Comm comm, int rank, int size, bool nb) {
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

static void scatter(MPI_Comm comm, int rank, int size, bool nb) {
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

static void allgather(MPI_Comm comm, int rank, int size, bool nb) {
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

static void alltoall(MPI_Comm comm, int rank, int size, bool nb) {
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
static int lay_out(int size, int *counts, int *displacements) {
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

static void gatherv(MPI_Comm comm, int rank, int size, bool nb) {
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

static void scatterv(MPI_Comm comm, int rank, int size, bool nb) {
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

static void allgatherv(MPI_Comm comm, int rank, int size, bool nb) {
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
static int pair_count(int a, int b, int shift, bool symmetric) {
    int n = symmetric ? (a + b + shift) % 11 : (a + 2 * b + shift) % 11;
    return n * n * (shift % 7 == 0 ? 97 : 3);
}

static void alltoallvw(MPI_Comm comm, int rank, int size, bool nb) {
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

/* The data lie with gaps: in every second int, on some ranks and not on others. */
static MPI_Datatype every_second(int count) {
    MPI_Datatype vector, type;
    MPI_Type_vector(count, 1, 2, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, (MPI_Aint)(2 * (size_t)count * sizeof(int)), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&vector);
    return type;
}

static void with_gaps(MPI_Comm comm, int rank, int size, bool nb) {
    int what = below(4), root = below(size), count = random_count() / (what == 0 ? 1 : 4);
    bool gaps = (below(4) + rank) % 2 == 0;
    uint64_t salt = draw();
    int step = gaps ? 2 : 1, pieces = what == 0 ? 1 : size;
    size_t ints = (size_t)count * (size_t)step;
    int *in = allocate(ints * (size_t)size * sizeof(int)), *out = allocate(ints * (size_t)size * sizeof(int));
    MPI_Datatype type = gaps ? every_second(count) : MPI_INT;
    int n = gaps ? 1 : count;
    MPI_Request request;
    static const char *const names[] = {"bcast", "gather", "allgather", "alltoall"};
    static char name[64];
    snprintf(name, sizeof name, "%s%s of data with gaps", nb ? "i" : "", names[what]);
    stage = name;
    for (int p = 0; p < size; p++) {
        for (int i = 0; i < count; i++) {
            in[((size_t)p * (size_t)count + (size_t)i) * (size_t)step] = value(salt, rank, p * 100 + i);
        }
    }
    int *found = what == 0 && rank == root ? in : out;
    switch (what) {
    case 0:
        nb ? MPI_Ibcast(found, n, type, root, comm, &request) : MPI_Bcast(found, n, type, root, comm);
        break;
    case 1:
        nb ? MPI_Igather(in, n, type, out, n, type, root, comm, &request)
           : MPI_Gather(in, n, type, out, n, type, root, comm);
        break;
    case 2:
        nb ? MPI_Iallgather(in, n, type, out, n, type, comm, &request)
           : MPI_Allgather(in, n, type, out, n, type, comm);
        break;
    default:
        nb ? MPI_Ialltoall(in, n, type, out, n, type, comm, &request)
           : MPI_Alltoall(in, n, type, out, n, type, comm);
        break;
    }
    if (gaps) {
        MPI_Type_free(&type);
    }
    finish(&request, nb);
    for (int p = 0; (what != 1 || rank == root) && p < pieces; p++) {
        for (int i = 0; i < count; i++) {
            size_t at = ((size_t)p * (size_t)count + (size_t)i) * (size_t)step;
            int expected = value(salt, what == 0 ? root : p, (what == 3 ? rank * 100 : 0) + i);
            if (found[at] != expected) {
                fail("piece %d, place %d: %d instead of %d", p, i, found[at], expected);
            }
            if (gaps && found == out && found[at + 1] != 0x5a5a5a5a) {
                fail("piece %d: the gap behind place %d was written to", p, i);
            }
        }
    }
    free(in);
    free(out);
}

static void barrier(MPI_Comm comm, int rank, int size, bool nb) {
    MPI_Request request;
    (void)rank;
    (void)size;
    stage = nb ? "ibarrier" : "barrier";
    nb ? MPI_Ibarrier(comm, &request) : MPI_Barrier(comm);
    finish(&request, nb);
}

/* ---- reductions with an operation that is associative but not commutative ---- */

/* An element is the map x -> a x + b modulo 2^32, a in the upper half; the operation composes two maps. */
static uint64_t compose(uint64_t first, uint64_t second) {
    uint32_t a = (uint32_t)(first >> 32), b = (uint32_t)first;
    uint32_t c = (uint32_t)(second >> 32), d = (uint32_t)second;
    return (uint64_t)(uint32_t)(a * c) << 32 | (uint32_t)(c * b + d);
}

static void compose_all(void *in, void *inout, int *count, MPI_Datatype *type) {
    const uint64_t *left = in;
    uint64_t *right = inout;
    (void)type;
    for (int i = 0; i < *count; i++) {
        right[i] = compose(left[i], right[i]);
    }
}

static MPI_Op maps;

static uint64_t map_value(uint64_t salt, int rank, int i) {
    uint64_t z = salt + (uint64_t)rank * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)i * UINT64_C(0xd1342543de82ef95);
    z = (z ^ (z >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z | UINT64_C(1) << 32;
}

/* What the ranks first..last make at place i. */
static uint64_t folded(uint64_t salt, int last, int i, bool user) {
    uint64_t result = map_value(salt, 0, i);
    for (int rank = 1; rank <= last; rank++) {
        result = user ? compose(result, map_value(salt, rank, i)) : result + map_value(salt, rank, i);
    }
    return result;
}

static void check_folded(const uint64_t *found, int count, uint64_t salt, int last, int first, bool user) {
    for (int i = 0; i < count; i++) {
        if (found[i] != folded(salt, last, first + i, user)) {
            fail("place %d: %llx instead of %llx", i, (unsigned long long)found[i],
                 (unsigned long long)folded(salt, last, first + i, user));
        }
    }
}

static void reduction(MPI_Comm comm, int rank, int size, bool nb) {
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

/* ---- every operation on every type that it is defined for ---- */

#define CHECK_TYPE(TYPE, MPI_TYPE, MPI_OPERATION, VALUE, EXPRESSION)                                                   \
    do {                                                                                                               \
        enum { N = 5 };                                                                                                \
        TYPE in[N], out[N], expected[N], local[N];                                                                     \
        stage = #MPI_OPERATION " on " #MPI_TYPE;                                                                       \
        memset(in, 0, sizeof in);                                                                                      \
        memset(out, 0, sizeof out);                                                                                    \
        for (int r = size - 1; r >= 0; r--) {                                                                          \
            for (int i = 0; i < N; i++) {                                                                              \
                TYPE a = (TYPE)(VALUE(r, i)), b = expected[i];                                                         \
                expected[i] = r == size - 1 ? a : (TYPE)(EXPRESSION);                                                  \
                if (r == rank) {                                                                                       \
                    in[i] = a;                                                                                         \
                }                                                                                                      \
                (void)b;                                                                                               \
            }                                                                                                          \
        }                                                                                                              \
        MPI_Allreduce(in, out, N, MPI_TYPE, MPI_OPERATION, comm);                                                      \
        for (int i = 0; i < N; i++) {                                                                                  \
            if (!(out[i] == expected[i])) {                                                                            \
                fail("place %d is wrong", i);                                                                          \
            }                                                                                                          \
            TYPE a = (TYPE)(VALUE(1, i)), b = (TYPE)(VALUE(2, i));                                                     \
            in[i] = a;                                                                                                 \
            local[i] = b;                                                                                              \
            expected[i] = (TYPE)(EXPRESSION);                                                                          \
        }                                                                                                              \
        MPI_Reduce_local(in, local, N, MPI_TYPE, MPI_OPERATION);                                                       \
        for (int i = 0; i < N; i++) {                                                                                  \
            if (!(local[i] == expected[i])) {                                                                          \
                fail("place %d of the local reduction is wrong", i);                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#define SMALL(r, i) (1 + ((r)*3 + (i)) % 3)
#define TRUTH(r, i) (((r) + (i)) % 3 != 0)
#define IMAGINARY(r, i) (SMALL(r, i) + SMALL(i, r) * I)

#define CHECK_ARITHMETIC(TYPE, MPI_TYPE)                                                                               \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_SUM, SMALL, a + b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_PROD, SMALL, a *b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_MIN, SMALL, a < b ? a : b);                                                         \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_MAX, SMALL, a > b ? a : b)

#define CHECK_LOGICAL(TYPE, MPI_TYPE)                                                                                  \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_LAND, TRUTH, a &&b);                                                                \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_LOR, TRUTH, a || b);                                                                \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_LXOR, TRUTH, !a != !b)

#define CHECK_BITS(TYPE, MPI_TYPE)                                                                                     \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_BAND, SMALL, a &b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_BOR, SMALL, a | b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_BXOR, SMALL, a ^ b)

#define CHECK_INTEGER(TYPE, MPI_TYPE)                                                                                  \
    CHECK_ARITHMETIC(TYPE, MPI_TYPE);                                                                                  \
    CHECK_LOGICAL(TYPE, MPI_TYPE);                                                                                     \
    CHECK_BITS(TYPE, MPI_TYPE)

#define CHECK_COMPLEX(TYPE, MPI_TYPE)                                                                                  \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_SUM, IMAGINARY, a + b);                                                             \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_PROD, IMAGINARY, a *b)

#define CHECK_PAIRS(TYPE, MPI_TYPE)                                                                                    \
    do {                                                                                                               \
        enum { N = 7 };                                                                                                \
        struct {                                                                                                       \
            TYPE value;                                                                                                \
            int index;                                                                                                 \
        } in[N], low[N], high[N];                                                                                      \
        stage = "MPI_MINLOC and MPI_MAXLOC on " #MPI_TYPE;                                                             \
        memset(in, 0, sizeof in);                                                                                      \
        for (int i = 0; i < N; i++) {                                                                                  \
            in[i].value = (TYPE)((rank * 5 + i * 3) % 4);                                                              \
            in[i].index = size - rank;                                                                                 \
        }                                                                                                              \
        MPI_Allreduce(in, low, N, MPI_TYPE, MPI_MINLOC, comm);                                                         \
        MPI_Allreduce(in, high, N, MPI_TYPE, MPI_MAXLOC, comm);                                                        \
        for (int i = 0; i < N; i++) {                                                                                  \
            TYPE least = 9, most = 0;                                                                                  \
            int least_at = 0, most_at = 0;                                                                             \
            for (int r = 0; r < size; r++) {                                                                           \
                TYPE v = (TYPE)((r * 5 + i * 3) % 4);                                                                  \
                if (v < least || (v == least && size - r < least_at)) {                                                \
                    least = v;                                                                                         \
                    least_at = size - r;                                                                               \
                }                                                                                                      \
                if (r == 0 || v > most || (v == most && size - r < most_at)) {                                         \
                    most = v;                                                                                          \
                    most_at = size - r;                                                                                \
                }                                                                                                      \
            }                                                                                                          \
            if (low[i].value != least || low[i].index != least_at || high[i].value != most ||                          \
                high[i].index != most_at) {                                                                            \
                fail("place %d is wrong", i);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static void types_and_operations(MPI_Comm comm, int rank, int size) {
    CHECK_INTEGER(signed char, MPI_SIGNED_CHAR);
    CHECK_INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    CHECK_INTEGER(short, MPI_SHORT);
    CHECK_INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    CHECK_INTEGER(int, MPI_INT);
    CHECK_INTEGER(unsigned, MPI_UNSIGNED);
    CHECK_INTEGER(long, MPI_LONG);
    CHECK_INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    CHECK_INTEGER(long long, MPI_LONG_LONG);
    CHECK_INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    CHECK_INTEGER(int8_t, MPI_INT8_T);
    CHECK_INTEGER(uint8_t, MPI_UINT8_T);
    CHECK_INTEGER(int16_t, MPI_INT16_T);
    CHECK_INTEGER(uint16_t, MPI_UINT16_T);
    CHECK_INTEGER(int32_t, MPI_INT32_T);
    CHECK_INTEGER(uint32_t, MPI_UINT32_T);
    CHECK_INTEGER(int64_t, MPI_INT64_T);
    CHECK_INTEGER(uint64_t, MPI_UINT64_T);
    CHECK_ARITHMETIC(MPI_Aint, MPI_AINT);
    CHECK_ARITHMETIC(MPI_Count, MPI_COUNT);
    CHECK_ARITHMETIC(MPI_Offset, MPI_OFFSET);
    CHECK_ARITHMETIC(float, MPI_FLOAT);
    CHECK_ARITHMETIC(double, MPI_DOUBLE);
    CHECK_ARITHMETIC(long double, MPI_LONG_DOUBLE);
    CHECK_COMPLEX(float _Complex, MPI_C_FLOAT_COMPLEX);
    CHECK_COMPLEX(double _Complex, MPI_C_DOUBLE_COMPLEX);
    CHECK_COMPLEX(long double _Complex, MPI_C_LONG_DOUBLE_COMPLEX);
    CHECK_LOGICAL(bool, MPI_C_BOOL);
    CHECK_BITS(unsigned char, MPI_BYTE);
    CHECK_PAIRS(float, MPI_FLOAT_INT);
    CHECK_PAIRS(double, MPI_DOUBLE_INT);
    CHECK_PAIRS(long, MPI_LONG_INT);
    CHECK_PAIRS(int, MPI_2INT);
    CHECK_PAIRS(short, MPI_SHORT_INT);
    CHECK_PAIRS(long double, MPI_LONG_DOUBLE_INT);
}

/* ---- mixes ---- */

typedef void operation(MPI_Comm comm, int rank, int size, bool nonblocking);

static operation *const OPERATIONS[] = {barrier,  broadcast, gather,     scatter,    allgather, alltoall,
                                        gatherv,  scatterv,  allgatherv, alltoallvw, with_gaps, reduction,
                                        reduction, reduction};

static void mix(const MPI_Comm *comms, int comm_count, int rounds, int nonblocking_percent) {
    for (int i = 0; i < rounds; i++) {
        MPI_Comm comm = comms[below(comm_count)];
        int rank, size;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        nap(comm);
        bool nonblocking = below(100) < nonblocking_percent;
        OPERATIONS[below((int)(sizeof OPERATIONS / sizeof *OPERATIONS))](comm, rank, size, nonblocking);
    }
}

/* Small operations back to back, without anything that brings the ranks together in between. */
static void burst(MPI_Comm comm, int rounds) {
    int rank, size, sum, last = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    stage = "burst of small operations";
    for (int i = 0; i < rounds; i++) {
        int root = below(size), number = below(1000000), all[MAX_RANKS], mine = number + rank;
        nap(comm);
        switch (below(6)) {
        case 0:
            last = rank == root ? number : -1;
            MPI_Bcast(&last, 1, MPI_INT, root, comm);
            if (last != number) {
                fail("round %d: bcast gives %d instead of %d", i, last, number);
            }
            break;
        case 1:
            MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, root, comm);
            if (rank == root && sum != number * size + size * (size - 1) / 2) {
                fail("round %d: reduce gives %d", i, sum);
            }
            break;
        case 2:
            MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, comm);
            if (sum != number + size - 1) {
                fail("round %d: allreduce gives %d", i, sum);
            }
            break;
        case 3:
            MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, root, comm);
            for (int r = 0; rank == root && r < size; r++) {
                if (all[r] != number + r) {
                    fail("round %d: gather gives %d for rank %d", i, all[r], r);
                }
            }
            break;
        case 4:
            for (int r = 0; r < size; r++) {
                all[r] = number + r;
            }
            MPI_Scatter(all, 1, MPI_INT, &sum, 1, MPI_INT, root, comm);
            if (sum != mine) {
                fail("round %d: scatter gives %d instead of %d", i, sum, mine);
            }
            break;
        default:
            MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_MAX, comm);
            if (sum != mine) {
                fail("round %d: scan gives %d instead of %d", i, sum, mine);
            }
        }
    }
}

/* Several operations pending at once, finished in another order than they were started. */
static void pending(MPI_Comm comm) {
    enum { N = 6 };
    int rank, size, in[N], out[N], indices[N], order;
    MPI_Request requests[N];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    stage = "several pending operations";
    for (int i = 0; i < N; i++) {
        in[i] = rank * 10 + i;
        MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, i % 2 == 0 ? MPI_SUM : MPI_MAX, comm, &requests[i]);
        if (i == 2) {
            MPI_Barrier(comm);
        }
    }
    for (int left = N; left > 0; left -= order) {
        MPI_Waitsome(N, requests, &order, indices, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < N; i++) {
        int expected = i % 2 == 0 ? 10 * size * (size - 1) / 2 + i * size : (size - 1) * 10 + i;
        if (out[i] != expected) {
            fail("operation %d gives %d instead of %d", i, out[i], expected);
        }
    }
}

/* Persistent requests, started again and again, in another order on every other rank. */
static void persistent(MPI_Comm comm) {
    enum { N = 4, LENGTH = 700 };
    int rank, size, sum[LENGTH], mine[LENGTH], from_root[LENGTH], root;
    int counts[MAX_RANKS], displacements[MAX_RANKS], all[MAX_RANKS * 2];
    MPI_Request requests[N];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    root = below(size);
    stage = "persistent operations";
    for (int i = 0; i < size; i++) {
        counts[i] = 1 + i % 2;
        displacements[i] = 2 * i;
    }
    MPI_Allreduce_init(mine, sum, LENGTH, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(from_root, LENGTH, MPI_INT, root, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Allgatherv_init(mine, counts[rank], MPI_INT, all, counts, displacements, MPI_INT, comm, MPI_INFO_NULL,
                        &requests[2]);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[3]);
    for (int round = 0; round < 5; round++) {
        uint64_t salt = draw();
        fill_ints(mine, LENGTH, salt, rank, 0);
        fill_ints(from_root, LENGTH, salt, rank, 0);
        memset(all, 0, sizeof all);
        nap(comm);
        if (rank % 2 == 0) {
            MPI_Startall(N, requests);
        } else {
            for (int i = N - 1; i >= 0; i--) {
                MPI_Start(&requests[i]);
            }
        }
        MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
        check_ints(from_root, LENGTH, salt, root, 0);
        for (int i = 0; i < LENGTH; i++) {
            int expected = 0;
            for (int r = 0; r < size; r++) {
                expected += value(salt, r, i);
            }
            if (sum[i] != expected) {
                fail("round %d, place %d: %d instead of %d", round, i, sum[i], expected);
            }
        }
        for (int r = 0; r < size; r++) {
            check_ints(all + 2 * r, 1 + r % 2, salt, r, 0);
        }
    }
    for (int i = 0; i < N; i++) {
        MPI_Request_free(&requests[i]);
    }
}

/* Two groups, the ranks below `border` and the others. */
static void between_groups(int border, bool nb) {
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

int main(int argc, char **argv) {
    int rank, size;
    MPI_Comm comms[MAX_COMMS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    world_rank = rank;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 300;
    if (rank == 0) {
        printf("collectives: seed %llu, %d ranks\n", (unsigned long long)seed, size);
        fflush(stdout);
    }
    state = seed;
    if (size > MAX_RANKS) {
        fail("more than %d ranks", MAX_RANKS);
    }
    MPI_Op_create(compose_all, 0, &maps);
    int commutative = 1;
    MPI_Op_commutative(maps, &commutative);
    if (commutative != 0) {
        fail("the operation should not be commutative");
    }
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[3]);
    int comm_count = 3;
    for (int i = 0; i < comm_count; i++) {
        int r;
        MPI_Comm_rank(comms[i], &r);
        types_and_operations(comms[i], r, size);
        burst(comms[i], rounds * 5);
        pending(comms[i]);
        persistent(comms[i]);
    }
    for (int i = 0; size > 1 && i < 6; i++) {
        between_groups(1 + below(size - 1), i % 2 == 1);
    }
    mix(comms, comm_count, rounds, 0);
    mix(comms, comm_count, rounds, 50);
    /* The halves go their ways at their own pace, and draw differently where their sizes differ. */
    uint64_t together = state;
    mix(&comms[3], 1, rounds, 30);
    state = together;
    for (int i = 1; i < MAX_COMMS; i++) {
        MPI_Comm_free(&comms[i]);
    }
    /* Blocks of shared memory come back: many communicators, one after the other. */
    stage = "many communicators";
    MPI_Comm many[150];
    for (int i = 0; i < 150; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &many[i]);
        burst(many[i], 3);
        if (i % 3 != 0) {
            MPI_Comm_free(&many[i]);
        }
    }
    for (int i = 0; i < 150; i += 3) {
        burst(many[i], 3);
        MPI_Comm_free(&many[i]);
    }
    mix(comms, 1, 10, 0);
    MPI_Op_free(&maps);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("collectives: all right\n");
    }
    MPI_Finalize();
    return 0;
}
