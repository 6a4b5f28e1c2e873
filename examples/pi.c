/*
 * Pi by the midpoint rule: the integral of 4 / (1 + x^2) from 0 to 1. Rank 0 gives the number of intervals to all, every
 * rank adds up its share, a reduction adds the shares.
 *
 *   mpiexec -n 4 ./pi [intervals]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, ranks;
    long intervals = 0;
    double share = 0.0, pi = 0.0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) {
        intervals = argc > 1 ? atol(argv[1]) : 10000000;
    }
    MPI_Bcast(&intervals, 1, MPI_LONG, 0, MPI_COMM_WORLD);

    double start = MPI_Wtime(), width = 1.0 / (double)intervals;
    for (long i = rank; i < intervals; i += ranks) {
        double x = width * ((double)i + 0.5);
        share += 4.0 / (1.0 + x * x);
    }
    share *= width;
    MPI_Reduce(&share, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);

    if (rank == 0) {
        printf("pi is about %.15f, off by %.1e; %d ranks, %.1f ms\n", pi, fabs(pi - acos(-1.0)), ranks,
               (MPI_Wtime() - start) * 1e3);
    }
    MPI_Finalize();
    return 0;
}
