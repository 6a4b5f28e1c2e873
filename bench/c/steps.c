/*
 * Compute, then a barrier, again and again: the shape of a program in steps.
 *
 *   steps (--work-us 4.88 | --loops N) [--steps N | --budget-ms 300] [--at NS]
 *
 * --loops  compute as a number of loops, so that all libraries do the same work (`limits` prints loops per us)
 * --steps  exactly so many steps (for two jobs at once); else as many as fit the budget
 * --at     begin when the monotonic clock says so: then jobs that are to run at once do, however long their launchers take
 */
#include "bench.h"
#include <mpi.h>

static volatile uint64_t sink;

static void steps(uint64_t loops, int count) {
    for (int i = 0; i < count; i++) {
        sink = work(loops);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    int rank, ranks, plan[2], more = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double work_us = option_number(argc, argv, "--work-us", 4.88);
    double budget_ms = option_number(argc, argv, "--budget-ms", 300);
    double asked_loops = option_number(argc, argv, "--loops", 0);
    int asked_steps = (int)option_number(argc, argv, "--steps", 0);
    uint64_t loops = (uint64_t)(asked_loops > 0 ? asked_loops : work_us * 1e3 / work_ns_per_loop());

    double one_ns = 0;
    for (int warm = 1; more && warm <= 1000; warm *= 10) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        steps(loops, warm);
        one_ns = (now_ns() - start) / warm;
        more = asked_steps == 0 && one_ns * warm * 10 < budget_ms * 1e6 / 2;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    struct plan p = plan_for(one_ns, budget_ms);
    if (asked_steps > 0) {
        p = (struct plan){asked_steps / 50 > 0 ? asked_steps / 50 : 1, asked_steps < 50 ? asked_steps : 50};
    }
    plan[0] = p.per_batch;
    plan[1] = p.batches;
    MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
    struct samples samples = samples_new();
    double at_ns = option_number(argc, argv, "--at", 0);
    while (now_ns() < at_ns) {
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double whole = now_ns();
    int done = 0;
    p = (struct plan){plan[0], plan[1]};
    more = 1;
    while (more && done < p.batches) {
        for (int i = 0; i < part_batches(&p); i++, done++) {
            double start = now_ns();
            steps(loops, p.per_batch);
            samples_add(&samples, (now_ns() - start) / p.per_batch);
        }
        /* An asked number of steps is run to its end. */
        more = asked_steps > 0 || another_part(whole, budget_ms);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    whole = now_ns() - whole;
    if (rank == 0) {
        /* The mean is the figure: with more ranks than cores a step's cost is in its rare long waits. */
        double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        printf("steps ranks=%d loops=%llu mean_ns=%.1f median_ns=%.1f p99_ns=%.1f n=%zu\n", ranks,
               (unsigned long long)loops, whole / ((double)p.per_batch * done), median, p99, samples.count);
    }
    free(samples.ns);
    MPI_Finalize();
    return 0;
}
