/*
 * Reductions whose result depends on the grouping: sums and products of all rounded types, the largest and the
 * smallest of zeros and of what is no number, and an operation that is neither associative nor commutative, by every
 * kind of call, in place and not. All ranks have the same bits, and rank
 * 0 prints them: the test compares what ranks in different places print.
 */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reduction to a root by a function has one grouping up to 4 KiB, and another one in all places above. */
enum { TYPES = 10, OPS = 6, WAYS = 5, GAPS = 7, SLOT_BYTES = 4096, MARGIN = 128 };

static const char *const TYPE_NAMES[TYPES] = {"float",         "double",        "long double", "float complex",
                                              "double complex", "float and int", "double by function", "gaps by function",
                                              "gaps in front by function", "negative by function"};
static const char *const OP_NAMES[OPS] = {"sum", "product", "half sum", "maxloc", "max", "min"};
static const char *const WAY_NAMES[WAYS] = {"allreduce", "iallreduce", "persistent", "reduce", "ireduce"};

struct place {
    float value;
    int index;
};

/* Elements of a number and memory that is not theirs: where the number is, and how far the next one. */
static const struct {
    MPI_Aint at, extent;
} places[TYPES - GAPS] = {{0, 16}, {64, 80}, {-24, 32}};

static MPI_Op half_sum;
static MPI_Datatype gaps[TYPES - GAPS];
static const char *stage = "start";

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rounded: %s: ", stage);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* The number of an element of a type of doubles. */
static double *double_at(void *at, int type, int i) {
    return type < GAPS ? (double *)at + i
                       : (double *)((char *)at + places[type - GAPS].at + i * places[type - GAPS].extent);
}

/* a o b = a + b / 2: the order counts, and the grouping too. */
static void add_half(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    int type = 6;
    for (int gap = GAPS; gap < TYPES; gap++) {
        type = *datatype == gaps[gap - GAPS] ? gap : type;
    }
    for (int i = 0; i < *count; i++) {
        double *right = double_at(inout, type, i);
        *right = *double_at(in, type, i) + *right / 2;
    }
}

static double number(int rank, int i) {
    static const double scales[] = {1e7, 1, 1e-7, -1e7, 0.3};
    return scales[(rank * 3 + i) % 5] * (1 + (double)((rank * 31 + i * 17) % 97) / 97);
}

/* Of these the larger one, or the smaller, depends on which comes first. */
static double special(int rank, int i) {
    const double numbers[] = {0.0, -0.0, NAN, -0.0, 0.0, -NAN};
    return numbers[(rank + i * 5 + i / 7) % 6];
}

static MPI_Datatype type_of(int type) {
    switch (type) {
    case 0:
        return MPI_FLOAT;
    case 1:
        return MPI_DOUBLE;
    case 2:
        return MPI_LONG_DOUBLE;
    case 3:
        return MPI_C_FLOAT_COMPLEX;
    case 4:
        return MPI_C_DOUBLE_COMPLEX;
    case 5:
        return MPI_FLOAT_INT;
    case 6:
        return MPI_DOUBLE;
    default:
        return gaps[type - GAPS];
    }
}

static size_t size_of(int type) {
    static const size_t sizes[GAPS] = {sizeof(float),          sizeof(double),       sizeof(long double),
                                       sizeof(float complex),  sizeof(double complex), sizeof(struct place),
                                       sizeof(double)};
    return type < GAPS ? sizes[type] : (size_t)places[type - GAPS].extent;
}

/* Products stay near one, so that they neither overflow nor vanish. */
static void fill(void *at, int type, int op, int rank, int count) {
    for (int i = 0; i < count; i++) {
        double x = op == 1 ? 1 + number(rank, i) / 4e7 : op >= 4 ? special(rank, i) : number(rank, i);
        switch (type) {
        case 0:
            ((float *)at)[i] = (float)x;
            break;
        case 2:
            ((long double *)at)[i] = x;
            break;
        case 3:
            ((float complex *)at)[i] = (float)x + (float)(x / 3) * I;
            break;
        case 4:
            ((double complex *)at)[i] = x + x / 3 * I;
            break;
        case 5:
            ((struct place *)at)[i] = (struct place){(float)((rank + i) % 3), rank};
            break;
        default:
            *double_at(at, type, i) = x;
        }
    }
}

/* The bits that count; a long double has 10 bytes of them. */
static unsigned long long bits(void *at, int type, int count) {
    unsigned long long hash = 14695981039346656037ULL;
    size_t size = size_of(type), counted = type == 2 ? 10 : type >= GAPS ? sizeof(double) : size;
    for (int i = 0; i < count; i++) {
        const unsigned char *element = type >= GAPS ? (unsigned char *)double_at(at, type, i)
                                                    : (const unsigned char *)at + (size_t)i * size;
        for (size_t b = 0; b < counted; b++) {
            hash = (hash ^ element[b]) * 1099511628211ULL;
        }
    }
    return hash;
}

static int has(int type, int op) {
    if (type >= 5) {
        return op == (type == 5 ? 3 : 2);
    }
    return op < 2 || (type < 2 && op >= 4);
}

static void reduce(const void *send, void *receive, int count, int type, int op, int way, int root) {
    const MPI_Op ops[OPS] = {MPI_SUM, MPI_PROD, half_sum, MPI_MAXLOC, MPI_MAX, MPI_MIN};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype datatype = type_of(type);
    switch (way) {
    case 0:
        MPI_Allreduce(send, receive, count, datatype, ops[op], MPI_COMM_WORLD);
        return;
    case 1:
        MPI_Iallreduce(send, receive, count, datatype, ops[op], MPI_COMM_WORLD, &request);
        break;
    case 2:
        MPI_Allreduce_init(send, receive, count, datatype, ops[op], MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        return;
    case 3:
        MPI_Reduce(send, receive, count, datatype, ops[op], root, MPI_COMM_WORLD);
        return;
    default:
        MPI_Ireduce(send, receive, count, datatype, ops[op], root, MPI_COMM_WORLD, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* What is not data of a result stays as it was. */
static void check_gaps(unsigned char *memory, size_t bytes, int type, int count, unsigned char before) {
    for (int i = 0; i < count; i++) {
        memset(double_at(memory + MARGIN, type, i), before, sizeof(double));
    }
    for (size_t b = 0; b < bytes; b++) {
        if (memory[b] != before) {
            fail("byte %zu that is no data: %02x", b, memory[b]);
        }
    }
}

/* From the last rank to the first: what all places of ranks must give. */
static void check_half_sum(void *out, int type, int count, int ranks) {
    for (int i = 0; i < count; i++) {
        double sum = number(ranks - 1, i);
        for (int rank = ranks - 2; rank >= 0; rank--) {
            sum = number(rank, i) + sum / 2;
        }
        double found = *double_at(out, type, i);
        if (memcmp(&sum, &found, sizeof sum) != 0) {
            fail("place %d: %.17g instead of %.17g", i, found, sum);
        }
    }
}

static void one(int type, int op, int way, int count, int in_place, int root) {
    static char name[96];
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    snprintf(name, sizeof name, "%s %s %s %d%s", WAY_NAMES[way], OP_NAMES[op], TYPE_NAMES[type], count,
             way < 3 ? "" : " to a root");
    stage = name;
    size_t bytes = size_of(type) * (size_t)(count + 1) + 2 * MARGIN;
    unsigned char *in_memory = malloc(bytes), *out_memory = malloc(bytes);
    void *in = in_memory + MARGIN, *out = out_memory + MARGIN;
    int gets = way < 3 || rank == root, is_in_place = in_place && gets;
    memset(in_memory, 0x11, bytes);
    memset(out_memory, 0x22, bytes);
    fill(in, type, op, rank, count);
    if (is_in_place) {
        memcpy(out_memory, in_memory, bytes);
    }
    reduce(is_in_place ? MPI_IN_PLACE : in, out, count, type, op, way, root);
    int is_small = (size_t)count * (type >= GAPS ? sizeof(double) : size_of(type)) <= SLOT_BYTES;
    if (gets && op == 2 && (way < 3 || is_small)) {
        check_half_sum(out, type, count, ranks);
    }
    unsigned long long mine = bits(out, type, count), theirs = mine;
    if (gets && type >= GAPS) {
        check_gaps(out_memory, bytes, type, count, is_in_place ? 0x11 : 0x22);
    }
    MPI_Bcast(&theirs, 1, MPI_UNSIGNED_LONG_LONG, root, MPI_COMM_WORLD);
    if (gets && mine != theirs) {
        fail("%016llx, but rank %d has %016llx", mine, root, theirs);
    }
    /* Calls of all kinds give the same, as far as that is promised to a root. */
    static unsigned long long of_allreduce;
    if (way == 0) {
        of_allreduce = theirs;
    } else if (theirs != of_allreduce && (way < 3 || is_small)) {
        fail("%016llx, but MPI_Allreduce gave %016llx", theirs, of_allreduce);
    }
    if (rank == 0) {
        printf("%s%s: %016llx\n", name, in_place ? " in place" : "", theirs);
    }
    free(in_memory);
    free(out_memory);
}

int main(int argc, char **argv) {
    /* Around the sizes at which algorithms change, and far above. */
    static const int counts[] = {1, 3, 64, 256, 257, 511, 700, 20000};
    int ranks, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(add_half, 0, &half_sum);
    for (int gap = 0; gap < TYPES - GAPS; gap++) {
        MPI_Datatype number;
        MPI_Type_create_hindexed_block(1, 1, &places[gap].at, MPI_DOUBLE, &number);
        MPI_Type_create_resized(number, places[gap].at < 0 ? places[gap].at : 0, places[gap].extent, &gaps[gap]);
        MPI_Type_commit(&gaps[gap]);
        MPI_Type_free(&number);
    }
    for (int type = 0; type < TYPES; type++) {
        for (int op = 0; op < OPS; op++) {
            for (int c = 0; has(type, op) && c < (int)(sizeof counts / sizeof *counts); c++) {
                for (int way = 0; way < WAYS; way++) {
                    one(type, op, way, counts[c], 0, (c + way) % ranks);
                    one(type, op, way, counts[c], 1, (c + way) % ranks);
                }
            }
        }
    }
    for (int gap = 0; gap < TYPES - GAPS; gap++) {
        MPI_Type_free(&gaps[gap]);
    }
    MPI_Op_free(&half_sum);
    MPI_Finalize();
    if (rank == 0) {
        puts("rounded: all right");
    }
    return 0;
}
