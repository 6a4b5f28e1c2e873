/* EP: pairs of normal deviates by rejection, counted by rings. Nothing is exchanged but the sums; each rank jumps to its part of
 * one sequence of random numbers, so the counts are the same on any number of ranks.
 *
 * ep [PAIRS], default 2^18; prints the counts. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { RINGS = 8 };

/* Number `n` of the sequence: a mix of its index, so that any place is reached at once. */
static double uniform(uint64_t n)
{
    n += 0x9e3779b97f4a7c15u;
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
    n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
    n ^= n >> 31;
    return (double)(n >> 11) * 0x1p-52 - 1.0;
}

int main(int argc, char **argv)
{
    int rank, size;
    long long counts[RINGS] = {0}, all[RINGS], inside = 0;
    double sums[2] = {0, 0}, totals[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t pairs = argc > 1 ? strtoull(argv[1], NULL, 10) : 1u << 18;
    uint64_t begin = pairs * (uint64_t)rank / (uint64_t)size, end = pairs * ((uint64_t)rank + 1) / (uint64_t)size;
    for (uint64_t i = begin; i < end; i++) {
        double x = uniform(2 * i), y = uniform(2 * i + 1), t = x * x + y * y;
        if (t > 1.0 || t == 0.0)
            continue;
        double scale = sqrt(-2.0 * log(t) / t), a = fabs(x * scale), b = fabs(y * scale);
        int ring = (int)(a > b ? a : b);
        counts[ring < RINGS ? ring : RINGS - 1]++;
        sums[0] += x * scale;
        sums[1] += y * scale;
    }
    MPI_Allreduce(counts, all, RINGS, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(sums, totals, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < RINGS; i++)
        inside += all[i];
    /* A circle in its square; deviates with mean 0 and variance 1: six standard deviations. */
    double expected = acos(-1.0) / 4 * (double)pairs, n = (double)inside;
    int right = fabs(n - expected) < 6 * sqrt(expected) && fabs(totals[0]) < 6 * sqrt(n) && fabs(totals[1]) < 6 * sqrt(n);
    if (rank == 0) {
        printf("ep: %lld inside:", inside);
        for (int i = 0; i < RINGS; i++)
            printf(" %lld", all[i]);
        printf("\nep: %s\n", right ? "verified" : "WRONG");
    }
    MPI_Finalize();
    return !right;
}
