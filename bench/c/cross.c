/*
 * Large messages that cross each other: what a library must not deadlock or collapse on.
 *
 *   cross [--sizes 65536,...] [--budget-ms 150]
 *
 * how=sendrecv  every rank MPI_Sendrecv with its partner (2 ranks), or to the right and from the left (more)
 * how=isend     the same with MPI_Irecv and MPI_Isend
 * Every message is checked, outside of the timing. gbs is what one rank receives per second.
 */
#include "bench.h"
#include <mpi.h>

enum { TAG = 5, MAX_SIZES = 16 };

struct ring {
    int rank, ranks, right, left;
    unsigned char *out, *in;
};

static void shifts(const struct ring *r, size_t bytes, int nonblocking, int count) {
    for (int i = 0; i < count; i++) {
        if (nonblocking) {
            MPI_Request both[2];
            MPI_Irecv(r->in, (int)bytes, MPI_BYTE, r->left, TAG, MPI_COMM_WORLD, &both[0]);
            MPI_Isend(r->out, (int)bytes, MPI_BYTE, r->right, TAG, MPI_COMM_WORLD, &both[1]);
            MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        } else {
            MPI_Sendrecv(r->out, (int)bytes, MPI_BYTE, r->right, TAG, r->in, (int)bytes, MPI_BYTE, r->left, TAG,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void check(const struct ring *r, size_t bytes, int nonblocking) {
    pattern_fill(r->out, bytes, (unsigned)r->rank + 11);
    memset(r->in, 0xee, bytes);
    shifts(r, bytes, nonblocking, 1);
    if (!pattern_holds(r->in, bytes, (unsigned)r->left + 11)) {
        fprintf(stderr, "cross: rank %d: wrong data in a message of %zu bytes\n", r->rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void measure(const struct ring *r, size_t bytes, int nonblocking, double budget_ms) {
    int plan[2], more = 1;
    double one_ns = 0;
    check(r, bytes, nonblocking);
    for (int warm = 1; more && warm <= 100; warm *= 4) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        shifts(r, bytes, nonblocking, warm);
        one_ns = (now_ns() - start) / warm;
        more = one_ns * warm * 4 < budget_ms * 1e6 / 2;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    struct plan p = plan_for(one_ns, budget_ms);
    plan[0] = p.per_batch;
    plan[1] = p.batches;
    MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
    struct samples samples = samples_new();
    MPI_Barrier(MPI_COMM_WORLD);
    double whole = now_ns();
    int exchanges = 0;
    p = (struct plan){plan[0], plan[1]};
    more = 1;
    for (int done = 0; more && done < p.batches; done += part_batches(&p)) {
        for (int i = 0; i < part_batches(&p); i++, exchanges += p.per_batch) {
            double start = now_ns();
            shifts(r, bytes, nonblocking, p.per_batch);
            samples_add(&samples, (now_ns() - start) / p.per_batch);
        }
        more = another_part(whole, budget_ms);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double mean_ns = (now_ns() - whole) / exchanges;
    check(r, bytes, nonblocking);
    if (r->rank == 0) {
        double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        printf("cross how=%s bytes=%zu ranks=%d mean_gbs=%.3f mean_ns=%.0f median_ns=%.0f p99_ns=%.0f n=%zu\n",
               nonblocking ? "isend" : "sendrecv", bytes, r->ranks, (double)bytes / mean_ns, mean_ns, median, p99,
               samples.count);
        fflush(stdout);
    }
    free(samples.ns);
}

int main(int argc, char **argv) {
    struct ring r;
    size_t sizes[MAX_SIZES], largest = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    double budget_ms = option_number(argc, argv, "--budget-ms", 150);
    int count = option_sizes(argc, argv, "65536,1048576,16777216", sizes, MAX_SIZES);
    for (int i = 0; i < count; i++) {
        largest = sizes[i] > largest ? sizes[i] : largest;
    }
    r.right = (r.rank + 1) % r.ranks;
    r.left = (r.rank + r.ranks - 1) % r.ranks;
    r.out = touched(largest);
    r.in = touched(largest);
    for (int i = 0; i < count; i++) {
        measure(&r, sizes[i], 0, budget_ms);
        measure(&r, sizes[i], 1, budget_ms);
    }
    free(r.out);
    free(r.in);
    MPI_Finalize();
    return 0;
}
