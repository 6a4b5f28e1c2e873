/*
 * Time of collective operations.
 *
 *   coll [--budget-ms 40] [--sizes 8,1024,...]
 *
 * Barrier and allreduce of one double run on the world, on a duplicate and on a communicator of MPI_Comm_split (all
 * ranks, order reversed): a fast path for the world alone would show. Broadcast, allreduce and alltoall run on the
 * world over the sizes (bytes per rank; alltoall: bytes per pair).
 */
#include "bench.h"
#include <mpi.h>

enum { MAX_SIZES = 16 };

enum what { BARRIER, ALLREDUCE, BCAST, ALLTOALL };

static const char *const NAMES[] = {"barrier", "allreduce", "bcast", "alltoall"};

static double *in, *out;

static void operations(enum what what, size_t bytes, int count, MPI_Comm comm) {
    int doubles = (int)(bytes / sizeof(double));
    for (int i = 0; i < count; i++) {
        switch (what) {
        case BARRIER:
            MPI_Barrier(comm);
            break;
        case ALLREDUCE:
            MPI_Allreduce(in, out, doubles, MPI_DOUBLE, MPI_SUM, comm);
            break;
        case BCAST:
            MPI_Bcast(out, doubles, MPI_DOUBLE, 0, comm);
            break;
        case ALLTOALL:
            MPI_Alltoall(in, doubles, MPI_DOUBLE, out, doubles, MPI_DOUBLE, comm);
            break;
        }
    }
}

static void fail(enum what what, size_t bytes, int rank) {
    fprintf(stderr, "coll: rank %d: wrong result of %s of %zu bytes\n", rank, NAMES[what], bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* One operation whose result is looked at, outside of the timing. */
static void check(enum what what, size_t bytes, MPI_Comm comm) {
    int rank, ranks, doubles = (int)(bytes / sizeof(double));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int total = what == ALLTOALL ? doubles * ranks : doubles;
    for (int i = 0; i < total; i++) {
        in[i] = rank + 1000.0 * i;
        out[i] = what == BCAST && rank == 0 ? 7.0 * i : -1.0;
    }
    operations(what, bytes, 1, comm);
    for (int i = 0; what != BARRIER && i < total; i++) {
        double expected = what == BCAST ? 7.0 * i
                          : what == ALLREDUCE
                              ? ranks * (ranks - 1) / 2.0 + 1000.0 * i * ranks
                              : i / doubles + 1000.0 * (rank * doubles + i % doubles);
        if (out[i] != expected) {
            fail(what, bytes, rank);
        }
    }
}

static void measure(enum what what, size_t bytes, MPI_Comm comm, const char *name, double budget_ms) {
    int rank, ranks, plan[2], more = 1;
    double one_ns = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(comm, &ranks);
    check(what, bytes, comm);
    for (int warm = 1; more && warm <= 1000; warm *= 10) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        operations(what, bytes, warm, comm);
        one_ns = (now_ns() - start) / warm;
        more = one_ns * warm * 10 < budget_ms * 1e6 / 2;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    struct plan p = plan_for(one_ns, budget_ms);
    plan[0] = p.per_batch;
    plan[1] = p.batches;
    MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
    struct samples samples = samples_new();
    MPI_Barrier(MPI_COMM_WORLD);
    double whole = now_ns();
    p = (struct plan){plan[0], plan[1]};
    more = 1;
    for (int done = 0; more && done < p.batches; done += part_batches(&p)) {
        for (int i = 0; i < part_batches(&p); i++) {
            double start = now_ns();
            operations(what, bytes, p.per_batch, comm);
            if (what == BCAST) {
                /* A root may run ahead of its receivers; the batch ends when all have it. */
                MPI_Barrier(comm);
            }
            samples_add(&samples, (now_ns() - start) / p.per_batch);
        }
        more = another_part(whole, budget_ms);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        printf("coll op=%s bytes=%zu comm=%s ranks=%d median_ns=%.1f p99_ns=%.1f n=%zu\n", NAMES[what], bytes, name,
               ranks, median, p99, samples.count);
        fflush(stdout);
    }
    free(samples.ns);
}

int main(int argc, char **argv) {
    int rank, ranks;
    size_t sizes[MAX_SIZES], largest = sizeof(double);
    MPI_Comm dup, split;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double budget_ms = option_number(argc, argv, "--budget-ms", 40);
    int count = option_sizes(argc, argv, "", sizes, MAX_SIZES);
    for (int i = 0; i < count; i++) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    in = (double *)touched(largest * (size_t)ranks);
    out = (double *)touched(largest * (size_t)ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &split);

    MPI_Comm comms[] = {MPI_COMM_WORLD, dup, split};
    const char *const names[] = {"world", "dup", "split"};
    for (int i = 0; i < 3; i++) {
        measure(BARRIER, 0, comms[i], names[i], budget_ms);
        measure(ALLREDUCE, sizeof(double), comms[i], names[i], budget_ms);
    }
    for (int i = 0; i < count; i++) {
        measure(BCAST, sizes[i], MPI_COMM_WORLD, "world", budget_ms);
        measure(ALLREDUCE, sizes[i], MPI_COMM_WORLD, "world", budget_ms);
        measure(ALLTOALL, sizes[i], MPI_COMM_WORLD, "world", budget_ms);
    }
    MPI_Comm_free(&dup);
    MPI_Comm_free(&split);
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
