/*
 * Messages of 4 bytes per second, from the first half of the ranks to the second half, in pairs.
 *
 *   rate [--window 64] [--unexpected] [--budget-ms 150]
 *
 * A window is that many MPI_Isend against as many MPI_Irecv, completed by MPI_Waitall and one answer.
 * --unexpected  receives are posted only when the whole window has arrived
 */
#include "bench.h"
#include <mpi.h>

enum { TAG_DATA = 1, TAG_ALL_SENT = 2, TAG_ANSWER = 3, MAX_WINDOW = 4096 };

static MPI_Request requests[MAX_WINDOW];
static int values[MAX_WINDOW];

static void one_window(int sender, int peer, int window, int unexpected) {
    if (sender) {
        for (int i = 0; i < window; i++) {
            values[i] = i;
            MPI_Isend(&values[i], 1, MPI_INT, peer, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
        }
        if (unexpected) {
            MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_ALL_SENT, MPI_COMM_WORLD);
        }
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        if (unexpected) {
            /* Messages of a pair do not overtake each other: all others have arrived before this one. */
            MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_ALL_SENT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int i = 0; i < window; i++) {
            MPI_Irecv(&values[i], 1, MPI_INT, peer, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_ANSWER, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    int rank, ranks, plan[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int window = (int)option_number(argc, argv, "--window", 64);
    int unexpected = option(argc, argv, "--unexpected");
    double budget_ms = option_number(argc, argv, "--budget-ms", 150);
    if (ranks % 2 != 0 || window < 1 || window > MAX_WINDOW) {
        fprintf(stderr, "rate: needs an even number of ranks and a window of 1 to %d\n", MAX_WINDOW);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int half = ranks / 2, sender = rank < half, peer = sender ? rank + half : rank - half;

    MPI_Barrier(MPI_COMM_WORLD);
    double start = now_ns();
    int trials = 0;
    /* Every pair runs the same number of trial windows; rank 0's time decides the plan. */
    for (int i = 0; i < 10; i++, trials++) {
        one_window(sender, peer, window, unexpected);
    }
    struct plan p = plan_for((now_ns() - start) / trials, budget_ms);
    plan[0] = p.per_batch;
    plan[1] = p.batches;
    MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);

    struct samples samples = samples_new();
    MPI_Barrier(MPI_COMM_WORLD);
    double whole = now_ns();
    int windows = 0;
    p = (struct plan){plan[0], plan[1]};
    for (int done = 0, more = 1; more && done < p.batches; done += part_batches(&p)) {
        for (int i = 0; i < part_batches(&p); i++) {
            double batch = now_ns();
            for (int j = 0; j < p.per_batch; j++, windows++) {
                one_window(sender, peer, window, unexpected);
            }
            samples_add(&samples, (now_ns() - batch) / p.per_batch);
        }
        more = another_part(whole, budget_ms);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    whole = now_ns() - whole;
    for (int i = 0; !sender && i < window; i++) {
        if (values[i] != i) {
            fprintf(stderr, "rate: rank %d: message %d holds %d\n", rank, i, values[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    if (rank == 0) {
        /* Several pairs share the cores: their sum over the whole time is the figure, not one pair's windows. */
        double total = (double)half * window * windows;
        double slow = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        double median_mps = half > 1 ? total * 1e3 / whole : window * 1e3 / median;
        double slow_mps = half > 1 ? half * window * 1e3 / slow : window * 1e3 / slow;
        printf("rate pairs=%d window=%d unexpected=%d median_mps=%.4f p99_mps=%.4f n=%zu\n", half, window, unexpected,
               median_mps, slow_mps, samples.count);
    }
    free(samples.ns);
    MPI_Finalize();
    return 0;
}
