/*
 * A program that talks often: each round every rank computes for some 50 us, then all meet in a barrier. Beside another such program
 * on the same cores it shows what sharing the machine costs: who is waited for may not be running.
 *
 *   mpiexec -n 2 ./turns [rounds]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* About 50 us on a core of 3 GHz. */
enum { STEPS = 50000 };

static uint64_t work(uint64_t state) {
    for (int i = 0; i < STEPS; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
    }
    return state;
}

int main(int argc, char **argv) {
    int rank;
    uint64_t state, all;
    long rounds = argc > 1 ? atol(argv[1]) : 20000;

    if (rounds < 1) {
        fprintf(stderr, "usage: turns [rounds], at least 1\n");
        return 1;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    state = (uint64_t)rank;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long i = 0; i < rounds; i++) {
        state = work(state);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    double took = MPI_Wtime() - start;
    MPI_Reduce(&state, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%ld rounds in %.2f s, %.1f us each (check %016llx)\n", rounds, took, took / (double)rounds * 1e6,
               (unsigned long long)all);
    }
    MPI_Finalize();
    return 0;
}
