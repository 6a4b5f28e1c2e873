/*
 * Data with gaps: packing, unpacking, and round trips between ranks 0 and 1.
 *
 *   types [--pack] [--rtt] [--budget-ms 100]
 *
 * column   1000 doubles, a column of a matrix of 1000 x 1000
 * short    16 doubles of such a column
 * blocks   1000 blocks of 4 doubles, every other one of an array
 * indexed  1000 blocks of 1 to 8 doubles, with gaps of 0 to 7
 * structs  1000 structures { char; double[3]; short; int[2]; }
 * matrix   all 1000 columns of that matrix, one after the other
 */
#include "bench.h"
#include <mpi.h>
#include <stddef.h>

enum { TAG = 1, TAG_PLAN = 2, N = 1000 };

struct particle {
    char kind;
    double place[3];
    short charge;
    int neighbours[2];
};

struct data {
    const char *name;
    MPI_Datatype type;
    int count, bytes;
};

static unsigned char *memory, *packed;
static int rank;

static MPI_Datatype indexed(void) {
    static int lengths[N], places[N];
    MPI_Datatype type;
    unsigned random = 1;
    for (int i = 0, at = 0; i < N; i++) {
        random = random * 1103515245u + 12345u;
        lengths[i] = 1 + (int)(random >> 16 & 7);
        at += (int)(random >> 20 & 7);
        places[i] = at;
        at += lengths[i];
    }
    MPI_Type_indexed(N, lengths, places, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype structure(void) {
    int lengths[4] = {1, 3, 1, 2};
    MPI_Aint places[4] = {offsetof(struct particle, kind), offsetof(struct particle, place),
                          offsetof(struct particle, charge), offsetof(struct particle, neighbours)};
    MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT}, type, resized;
    MPI_Type_create_struct(4, lengths, places, types, &type);
    MPI_Type_create_resized(type, 0, sizeof(struct particle), &resized);
    return resized;
}

static void pack(const struct data *d) {
    int position = 0;
    MPI_Pack(memory, d->count, d->type, packed, d->bytes, &position, MPI_COMM_SELF);
}

static void unpack(const struct data *d) {
    int position = 0;
    MPI_Unpack(packed, d->bytes, &position, memory, d->count, d->type, MPI_COMM_SELF);
}

static void round_trip(const struct data *d) {
    if (rank == 0) {
        MPI_Send(memory, d->count, d->type, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(memory, d->count, d->type, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(memory, d->count, d->type, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(memory, d->count, d->type, 0, TAG, MPI_COMM_WORLD);
    }
}

static double time_of(void (*action)(const struct data *), const struct data *d, int count) {
    double start = now_ns();
    for (int i = 0; i < count; i++) {
        action(d);
    }
    return (now_ns() - start) / count;
}

/* How often; when the other rank takes part, rank 0 decides for both. */
static struct plan agree(void (*action)(const struct data *), const struct data *d, double budget_ms, int together) {
    int numbers[2];
    struct plan p;
    time_of(action, d, 10);
    p = plan_for(time_of(action, d, 10), budget_ms);
    if (together) {
        numbers[0] = p.per_batch;
        numbers[1] = p.batches;
        if (rank == 0) {
            MPI_Send(numbers, 2, MPI_INT, 1, TAG_PLAN, MPI_COMM_WORLD);
        } else {
            MPI_Recv(numbers, 2, MPI_INT, 0, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        p = (struct plan){numbers[0], numbers[1]};
    }
    return p;
}

static void measure(const char *what, void (*action)(const struct data *), const struct data *d, double budget_ms,
                    int together) {
    struct samples samples = samples_new();
    struct plan p = agree(action, d, budget_ms, together);
    for (int i = 0; i < p.batches; i++) {
        samples_add(&samples, time_of(action, d, p.per_batch));
    }
    if (rank == 0) {
        double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        printf("types what=%s type=%s bytes=%d median_ns=%.1f p99_ns=%.1f n=%zu\n", what, d->name, d->bytes, median,
               p99, samples.count);
        fflush(stdout);
    }
    free(samples.ns);
}

/* What is packed and unpacked again is what was there. */
static void check_data(const struct data *d) {
    size_t room = (size_t)N * N * sizeof(double);
    unsigned char *before = touched(room);
    pattern_fill(memory, room, 1);
    memcpy(before, memory, room);
    pack(d);
    memset(packed + d->bytes, 0, 8);
    unpack(d);
    if (memcmp(before, memory, room) != 0) {
        fprintf(stderr, "types: wrong data of type %s\n", d->name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(before);
}

int main(int argc, char **argv) {
    struct data all[6] = {{"column", MPI_DATATYPE_NULL, 1, 0},  {"short", MPI_DATATYPE_NULL, 1, 0},
                          {"blocks", MPI_DATATYPE_NULL, 1, 0},  {"indexed", MPI_DATATYPE_NULL, 1, 0},
                          {"structs", MPI_DATATYPE_NULL, N, 0}, {"matrix", MPI_DATATYPE_NULL, N, 0}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double budget_ms = option_number(argc, argv, "--budget-ms", 100);
    memory = touched((size_t)N * N * sizeof(double));
    packed = touched((size_t)N * N * sizeof(double) + 8);
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &all[0].type);
    MPI_Type_vector(16, 1, N, MPI_DOUBLE, &all[1].type);
    MPI_Type_vector(N, 4, 8, MPI_DOUBLE, &all[2].type);
    all[3].type = indexed();
    all[4].type = structure();
    MPI_Type_create_resized(all[0].type, 0, sizeof(double), &all[5].type);
    for (int i = 0; i < 6; i++) {
        struct data *d = &all[i];
        MPI_Type_commit(&d->type);
        MPI_Type_size(d->type, &d->bytes);
        d->bytes *= d->count;
        check_data(d);
        if (option(argc, argv, "--pack") && rank == 0) {
            measure("pack", pack, d, budget_ms, 0);
            measure("unpack", unpack, d, budget_ms, 0);
        }
        if (option(argc, argv, "--rtt") && rank < 2) {
            measure("rtt", round_trip, d, budget_ms, 1);
        }
    }
    MPI_Finalize();
    return 0;
}
