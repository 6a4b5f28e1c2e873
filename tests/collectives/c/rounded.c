/*
 * Reductions whose result depends on the grouping: sums and products of all rounded types, and an operation that is
 * neither associative nor commutative, by every kind of call, in place and not. All ranks have the same bits, and rank
 * 0 prints them: the test compares what ranks in different places print.
 */
#include <complex.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reduction to a root by a function has one grouping up to 4 KiB, and another one in all places above. */
enum { TYPES = 8, OPS = 4, WAYS = 5, SLOT_BYTES = 4096 };

static const char *const TYPE_NAMES[TYPES] = {"float",         "double",        "long double", "float complex",
                                              "double complex", "float and int", "double by function", "gaps by function"};
static const char *const OP_NAMES[OPS] = {"sum", "product", "half sum", "maxloc"};
static const char *const WAY_NAMES[WAYS] = {"allreduce", "iallreduce", "persistent", "reduce", "ireduce"};

struct place {
    float value;
    int index;
};

/* A number and memory that is not its own. */
struct gap {
    double value;
    double other;
};

static MPI_Op half_sum, half_sum_of_gaps;
static MPI_Datatype gaps;
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

/* a o b = a + b / 2: the order counts, and the grouping too. */
static void add_half(void *in, void *inout, int *count, MPI_Datatype *type) {
    const double *left = in;
    double *right = inout;
    (void)type;
    for (int i = 0; i < *count; i++) {
        right[i] = left[i] + right[i] / 2;
    }
}

static void add_half_of_gaps(void *in, void *inout, int *count, MPI_Datatype *type) {
    const struct gap *left = in;
    struct gap *right = inout;
    (void)type;
    for (int i = 0; i < *count; i++) {
        right[i].value = left[i].value + right[i].value / 2;
    }
}

static double number(int rank, int i) {
    static const double scales[] = {1e7, 1, 1e-7, -1e7, 0.3};
    return scales[(rank * 3 + i) % 5] * (1 + (double)((rank * 31 + i * 17) % 97) / 97);
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
        return gaps;
    }
}

static size_t size_of(int type) {
    static const size_t sizes[TYPES] = {sizeof(float),          sizeof(double),       sizeof(long double),
                                        sizeof(float complex),  sizeof(double complex), sizeof(struct place),
                                        sizeof(double),         sizeof(struct gap)};
    return sizes[type];
}

/* Products stay near one, so that they neither overflow nor vanish. */
static void fill(void *at, int type, int op, int rank, int count) {
    for (int i = 0; i < count; i++) {
        double x = op == 1 ? 1 + number(rank, i) / 4e7 : number(rank, i);
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
        case 7:
            ((struct gap *)at)[i] = (struct gap){x, 1000 + i};
            break;
        default:
            ((double *)at)[i] = x;
        }
    }
}

/* The bits that count; a long double has 10 bytes of them. */
static unsigned long long bits(const void *at, int type, int count) {
    unsigned long long hash = 14695981039346656037ULL;
    size_t size = size_of(type), counted = type == 2 ? 10 : type == 7 ? sizeof(double) : size;
    for (int i = 0; i < count; i++) {
        const unsigned char *element = (const unsigned char *)at + (size_t)i * size;
        for (size_t b = 0; b < counted; b++) {
            hash = (hash ^ element[b]) * 1099511628211ULL;
        }
    }
    return hash;
}

static int has(int type, int op) {
    switch (type) {
    case 5:
        return op == 3;
    case 6:
    case 7:
        return op == 2;
    default:
        return op < 2;
    }
}

static void reduce(const void *send, void *receive, int count, int type, int op, int way, int root) {
    const MPI_Op ops[OPS] = {MPI_SUM, MPI_PROD, type == 7 ? half_sum_of_gaps : half_sum, MPI_MAXLOC};
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
static void check_gaps(const struct gap *out, int count, int in_place) {
    for (int i = 0; i < count; i++) {
        if (out[i].other != (in_place ? 1000 + i : -5)) {
            fail("gap %d: %g", i, out[i].other);
        }
    }
}

/* From the last rank to the first: what all places of ranks must give. */
static void check_half_sum(const double *out, int stride, int count, int ranks) {
    for (int i = 0; i < count; i++) {
        double sum = number(ranks - 1, i);
        for (int rank = ranks - 2; rank >= 0; rank--) {
            sum = number(rank, i) + sum / 2;
        }
        if (memcmp(&sum, &out[i * stride], sizeof sum) != 0) {
            fail("place %d: %.17g instead of %.17g", i, out[i * stride], sum);
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
    size_t bytes = size_of(type) * (size_t)(count + 1);
    void *in = calloc(1, bytes), *out = calloc(1, bytes);
    int gets = way < 3 || rank == root, is_in_place = in_place && gets;
    fill(in, type, op, rank, count);
    for (int i = 0; type == 7 && i < count; i++) {
        ((struct gap *)out)[i].other = -5;
    }
    if (is_in_place) {
        memcpy(out, in, bytes);
    }
    reduce(is_in_place ? MPI_IN_PLACE : in, out, count, type, op, way, root);
    if (gets && op == 2 && (way < 3 || (size_t)count * sizeof(double) <= SLOT_BYTES)) {
        check_half_sum(out, type == 7 ? 2 : 1, count, ranks);
    }
    if (gets && type == 7) {
        check_gaps(out, count, is_in_place);
    }
    unsigned long long mine = bits(out, type, count), theirs = mine;
    MPI_Bcast(&theirs, 1, MPI_UNSIGNED_LONG_LONG, root, MPI_COMM_WORLD);
    if (gets && mine != theirs) {
        fail("%016llx, but rank %d has %016llx", mine, root, theirs);
    }
    if (rank == 0) {
        printf("%s%s: %016llx\n", name, in_place ? " in place" : "", theirs);
    }
    free(in);
    free(out);
}

int main(int argc, char **argv) {
    /* Around the sizes at which algorithms change, and far above. */
    static const int counts[] = {1, 3, 64, 256, 257, 511, 700, 20000};
    int ranks, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(add_half, 0, &half_sum);
    MPI_Op_create(add_half_of_gaps, 0, &half_sum_of_gaps);
    MPI_Type_create_resized(MPI_DOUBLE, 0, sizeof(struct gap), &gaps);
    MPI_Type_commit(&gaps);
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
    MPI_Type_free(&gaps);
    MPI_Op_free(&half_sum);
    MPI_Op_free(&half_sum_of_gaps);
    MPI_Finalize();
    if (rank == 0) {
        puts("rounded: all right");
    }
    return 0;
}
