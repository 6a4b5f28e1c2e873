/* FT: the Fourier transform of a plane of complex numbers, rows spread over the ranks; between rows and columns the plane is
 * transposed by an all-to-all of blocks that datatypes describe. A wave must become one point, the sum of squares must stay, and the
 * way back must lead to where it began.
 *
 * ft [SIDE], a power of two that the number of ranks divides, default 256. */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* In place, radix 2; `sign` is -1 there and 1 back. */
static void transform(double complex *a, int n, int sign)
{
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex t = a[i];
            a[i] = a[j];
            a[j] = t;
        }
    }
    for (int length = 2; length <= n; length *= 2)
        for (int k = 0; k < length / 2; k++) {
            double angle = sign * 2 * acos(-1.0) * k / length;
            double complex w = cos(angle) + sin(angle) * I;
            for (int i = k; i < n; i += length) {
                double complex u = a[i], v = a[i + length / 2] * w;
                a[i] = u + v;
                a[i + length / 2] = u - v;
            }
        }
}

/* Blocks of `rows` columns go out as they lie, and come in turned: element by element down a column. */
static void transpose(const double complex *from, double complex *to, int n, int size)
{
    int rows = n / size;
    MPI_Datatype block, narrow, column, turned, wide;
    MPI_Type_vector(rows, rows, n, MPI_C_DOUBLE_COMPLEX, &block);
    MPI_Type_create_resized(block, 0, (MPI_Aint)sizeof *from * rows, &narrow);
    MPI_Type_vector(rows, 1, n, MPI_C_DOUBLE_COMPLEX, &column);
    MPI_Type_create_hvector(rows, 1, sizeof *from, column, &turned);
    MPI_Type_create_resized(turned, 0, (MPI_Aint)sizeof *from * rows, &wide);
    MPI_Type_commit(&narrow);
    MPI_Type_commit(&wide);
    MPI_Alltoall(from, 1, narrow, to, 1, wide, MPI_COMM_WORLD);
    MPI_Type_free(&block);
    MPI_Type_free(&narrow);
    MPI_Type_free(&column);
    MPI_Type_free(&turned);
    MPI_Type_free(&wide);
}

static void plane(double complex *a, double complex *b, int n, int size, int sign)
{
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < n / size; i++)
            transform(a + (size_t)i * (size_t)n, n, sign);
        transpose(a, b, n, size);
        for (size_t i = 0; i < (size_t)n * (size_t)(n / size); i++)
            a[i] = b[i];
    }
}

static double total(double own, MPI_Op op)
{
    double all;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n = argc > 1 ? atoi(argv[1]) : 256, rows = n / size, wave = 5, rise = 3;
    size_t own = (size_t)n * (size_t)rows;
    double complex *a = malloc(sizeof *a * own), *b = malloc(sizeof *b * own);
    double off = 0, energy = 0, after = 0;

    for (size_t i = 0; i < own; i++) {
        size_t y = i / (size_t)n + (size_t)(rank * rows), x = i % (size_t)n;
        double angle = 2 * acos(-1.0) * (double)((size_t)wave * x + (size_t)rise * y) / n;
        a[i] = cos(angle) + sin(angle) * I;
    }
    plane(a, b, n, size, -1);
    for (size_t i = 0; i < own; i++) {
        size_t y = i / (size_t)n + (size_t)(rank * rows), x = i % (size_t)n;
        double expected = y == (size_t)rise && x == (size_t)wave ? (double)n * n : 0.0;
        off = fmax(off, cabs(a[i] - expected) / ((double)n * n));
    }

    for (size_t i = 0; i < own; i++) {
        size_t global = i + own * (size_t)rank;
        a[i] = (double)(global * 7919 % 1009) / 1009 - 0.5 + ((double)(global * 104729 % 997) / 997 - 0.5) * I;
        energy += creal(a[i] * conj(a[i]));
    }
    plane(a, b, n, size, -1);
    for (size_t i = 0; i < own; i++)
        after += creal(a[i] * conj(a[i])) / ((double)n * n);
    plane(a, b, n, size, 1);
    for (size_t i = 0; i < own; i++) {
        size_t global = i + own * (size_t)rank;
        double complex was = (double)(global * 7919 % 1009) / 1009 - 0.5 + ((double)(global * 104729 % 997) / 997 - 0.5) * I;
        off = fmax(off, cabs(a[i] / ((double)n * n) - was));
    }
    energy = total(energy, MPI_SUM);
    after = total(after, MPI_SUM);
    off = total(off, MPI_MAX);
    int right = n % size == 0 && off < 1e-10 && fabs(after / energy - 1) < 1e-10;
    if (rank == 0)
        printf("ft: %d x %d, off by %.1e: %s\n", n, n, off, right ? "verified" : "WRONG");
    free(a);
    free(b);
    MPI_Finalize();
    return !right;
}
