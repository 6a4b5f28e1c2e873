/*
 * One job of a mix: what people run on a shared machine.
 *
 *   mix KIND --loops N --pieces N [--at NS]
 *
 *   fine     a piece of work and a barrier, on all ranks
 *   coarse   a hundred pieces and an allreduce; each rank has less to do in every other step and waits for 15 % of the time
 *   serial   one rank computes
 *   openmp   one rank: 16 pieces alone, then 40 divided among two threads
 *   asleep   one rank: 400 pieces, then as long asleep as for a disk
 *
 * --loops  a piece, so that all libraries do the same work
 * --pieces how many of them each rank does, or would do if it did not wait for others
 * --at     begin when the monotonic clock says so; `late=1` if that was before all ranks were there
 *
 * Prints when its work began and ended, as that clock says.
 */
#include "bench.h"
#include <mpi.h>
#include <string.h>

enum { COARSE = 100, LESS = 70, ALONE = 16, DIVIDED = 40, AWAKE = 400, ASLEEP_NS = 20000000 };

static volatile uint64_t sink;

static void pieces(uint64_t loops, int count) {
    for (int i = 0; i < count; i++) {
        sink = work(loops);
    }
}

static void fine(uint64_t loops, int all) {
    for (int i = 0; i < all; i++) {
        pieces(loops, 1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void coarse(uint64_t loops, int all, int rank) {
    double mine = rank, sum;
    for (int i = 0; i < all / COARSE; i++) {
        pieces(loops, (i + rank) % 2 ? LESS : COARSE);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void threads(uint64_t loops, int all) {
    for (int i = 0; i < all / (ALONE + DIVIDED); i++) {
        pieces(loops, ALONE);
#pragma omp parallel for num_threads(2) schedule(static)
        for (int part = 0; part < 2; part++) {
            pieces(loops, DIVIDED / 2);
        }
    }
}

static void asleep(uint64_t loops, int all) {
    for (int i = 0; i < all / AWAKE; i++) {
        pieces(loops, AWAKE);
        nanosleep(&(struct timespec){0, ASLEEP_NS}, NULL);
    }
}

int main(int argc, char **argv) {
    int rank, level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *kind = argc > 1 ? argv[1] : "";
    uint64_t loops = (uint64_t)option_number(argc, argv, "--loops", 1000);
    int all = (int)option_number(argc, argv, "--pieces", 1000);
    double at_ns = option_number(argc, argv, "--at", 0);
    MPI_Barrier(MPI_COMM_WORLD);
    int late = now_ns() > at_ns && at_ns > 0;
    while (now_ns() < at_ns) {
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double began = now_ns();
    if (!strcmp(kind, "fine")) {
        fine(loops, all);
    } else if (!strcmp(kind, "coarse")) {
        coarse(loops, all, rank);
    } else if (!strcmp(kind, "serial")) {
        pieces(loops, all);
    } else if (!strcmp(kind, "openmp")) {
        threads(loops, all);
    } else if (!strcmp(kind, "asleep")) {
        asleep(loops, all);
    } else {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("mix what=%s late=%d began_ns=%.0f ended_ns=%.0f\n", kind, late, began, now_ns());
    }
    MPI_Finalize();
    return 0;
}
