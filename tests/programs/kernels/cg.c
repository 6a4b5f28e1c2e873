/* CG: conjugate gradients on a sparse symmetric matrix with entries far from the diagonal, rows spread over the ranks. Each step
 * gathers a vector and adds two numbers over all ranks. The right side is made from a known solution, which must come out.
 *
 * cg [ROWS], default 3000. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS_MAX = 400 };

static const int distance[] = {1, 17, 211, 977};
enum { NEIGHBOURS = sizeof distance / sizeof *distance };

/* The entry between two rows, the same from both. */
static double entry(int low, int k)
{
    return 0.1 + (double)((low * 31 + k * 7) % 13) / 13.0;
}

/* Row `i` times a vector: neighbours around a circle, a diagonal that is larger than all of them. */
static double row(const double *x, int i, int n)
{
    double diagonal = 1.0, sum = 0.0;
    for (int k = 0; k < NEIGHBOURS; k++) {
        int up = (i + distance[k]) % n, down = (i + n - distance[k]) % n;
        double to_up = entry(i, k), to_down = entry(down, k);
        sum -= to_up * x[up] + to_down * x[down];
        diagonal += to_up + to_down;
    }
    return sum + diagonal * x[i];
}

static double dot(const double *a, const double *b, int n)
{
    double own = 0, all;
    for (int i = 0; i < n; i++)
        own += a[i] * b[i];
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    int rank, size, steps = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n = argc > 1 ? atoi(argv[1]) : 3000;
    int *counts = malloc(sizeof *counts * (size_t)size), *begins = malloc(sizeof *begins * (size_t)size);
    for (int i = 0; i < size; i++) {
        begins[i] = (int)((long long)n * i / size);
        counts[i] = (int)((long long)n * (i + 1) / size) - begins[i];
    }
    int own = counts[rank], begin = begins[rank];
    double *whole = malloc(sizeof(double) * (size_t)n), *memory = calloc((size_t)own * 4 + 1, sizeof(double));
    double *x = memory, *r = x + own, *p = r + own, *q = p + own;
    for (int i = 0; i < n; i++)
        whole[i] = 1.0 + i % 7;
    for (int i = 0; i < own; i++)
        r[i] = p[i] = row(whole, begin + i, n);
    double rho = dot(r, r, own), first = rho;
    while (rho > first * 1e-26 && steps < STEPS_MAX) {
        MPI_Allgatherv(p, own, MPI_DOUBLE, whole, counts, begins, MPI_DOUBLE, MPI_COMM_WORLD);
        for (int i = 0; i < own; i++)
            q[i] = row(whole, begin + i, n);
        double alpha = rho / dot(p, q, own), before = rho;
        for (int i = 0; i < own; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        rho = dot(r, r, own);
        for (int i = 0; i < own; i++)
            p[i] = r[i] + rho / before * p[i];
        steps++;
    }
    double off = 0, most;
    for (int i = 0; i < own; i++)
        off = fmax(off, fabs(x[i] - (1.0 + (begin + i) % 7)));
    MPI_Allreduce(&off, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    int right = steps < STEPS_MAX && most < 1e-9;
    if (rank == 0)
        printf("cg: %d rows, %d steps, off by %.1e: %s\n", n, steps, most, right ? "verified" : "WRONG");
    free(counts);
    free(begins);
    free(whole);
    free(memory);
    MPI_Finalize();
    return !right;
}
