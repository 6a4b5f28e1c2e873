/*
 * The two programs with which SCore-D was measured, and the moments at which ranks go on after a switch.
 *
 *   gang ep [--budget-ms 3000]      each rank computes alone: pieces of work in that time
 *   gang bar [--budget-ms 3000]     nothing but barriers: how long one takes
 *   ... --at NS                     ep and bar: in the time that begins then (CLOCK_MONOTONIC), whoever else has a turn in it; a program that
 *                                   is not ready by then says so instead
 *   gang skew [--budget-ms 3000]    each rank looks at the clock: when it went on after standing still for 100 us or more, and how far
 *                                   apart the ranks did so
 */
#include "bench.h"
#include <errno.h>
#include <mpi.h>

enum { PIECE = 20000, MOMENTS = 4096 };

static volatile uint64_t sink;

/* When to begin: all together, at this moment if it is one. */
static double begin(double at_ns) {
    MPI_Barrier(MPI_COMM_WORLD);
    double now = now_ns();
    if (at_ns <= 0) {
        return now;
    }
    int late = now > at_ns, any = 0;
    MPI_Allreduce(&late, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any) {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0) {
            printf("gang late=1\n");
        }
        MPI_Finalize();
        exit(0);
    }
    struct timespec at = {(time_t)((uint64_t)at_ns / 1000000000), (long)((uint64_t)at_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
    return at_ns;
}

/* Pieces of work of all ranks in the time. */
static void ep(int rank, int ranks, double budget_ms, double at_ns) {
    double pieces = 0, all = 0, start = begin(at_ns), now = now_ns();
    for (; now - start < budget_ms * 1e6; now = now_ns()) {
        sink = work(PIECE);
        pieces += 1;
    }
    /* Who is not on at the end of a common time looks at the clock later. */
    pieces /= at_ns > 0 ? budget_ms * 1e-3 : (now - start) * 1e-9;
    MPI_Reduce(&pieces, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("gang what=ep ranks=%d pieces_per_s=%.2f\n", ranks, all);
    }
}

static void bar(int rank, int ranks, double budget_ms, double at_ns) {
    int count = 0, more = 1;
    double start = begin(at_ns);
    while (more) {
        for (int i = 0; i < 50; i++, count++) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        more = now_ns() - start < budget_ms * 1e6;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    double took = at_ns > 0 ? budget_ms * 1e6 : now_ns() - start;
    if (rank == 0) {
        printf("gang what=bar ranks=%d mean_ns=%.1f n=%d\n", ranks, took / count, count);
    }
}

static void skew(int rank, int ranks, double budget_ms) {
    double *mine = calloc(MOMENTS, sizeof(double)), *others = calloc((size_t)ranks * MOMENTS, sizeof(double));
    int found = 0;
    if (mine == NULL || others == NULL) {
        fprintf(stderr, "gang: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (double start = now_ns(), last = start, now = start; now - start < budget_ms * 1e6; last = now) {
        now = now_ns();
        if (now - last > 100e3 && found < MOMENTS) {
            mine[found++] = now;
        }
    }
    MPI_Gather(mine, MOMENTS, MPI_DOUBLE, others, MOMENTS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        struct samples apart = samples_new();
        for (int i = 0; i < found; i++) {
            /* The same switch on another rank is the nearest moment there; one further off than 2 ms is not it. */
            double furthest = 0;
            int seen = 1;
            for (int other = 1; other < ranks; other++) {
                double nearest = 1e18;
                for (int j = 0; j < MOMENTS && others[other * MOMENTS + j] > 0; j++) {
                    double gap = others[other * MOMENTS + j] - mine[i];
                    gap = gap < 0 ? -gap : gap;
                    nearest = gap < nearest ? gap : nearest;
                }
                seen += nearest < 2e6;
                furthest = nearest < 2e6 && nearest > furthest ? nearest : furthest;
            }
            if (seen == ranks) {
                samples_add(&apart, furthest);
            }
        }
        printf("gang what=skew ranks=%d median_ns=%.0f p99_ns=%.0f n=%zu\n", ranks, samples_quantile(&apart, 0.5),
               samples_quantile(&apart, 0.99), apart.count);
        free(apart.ns);
    }
    free(mine);
    free(others);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double budget_ms = option_number(argc, argv, "--budget-ms", 3000);
    double at_ns = option_number(argc, argv, "--at", 0);
    if (option(argc, argv, "bar")) {
        bar(rank, ranks, budget_ms, at_ns);
    } else if (option(argc, argv, "skew")) {
        skew(rank, ranks, budget_ms);
    } else {
        ep(rank, ranks, budget_ms, at_ns);
    }
    MPI_Finalize();
    return 0;
}
