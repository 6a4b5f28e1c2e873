/* LU factorisation as in lu.c.in, by messages: the same blocks with the same owners, each rank with its own blocks alone.
 * Rows and columns of ranks are communicators. In step k
 *
 *     the owner factors A[k][k]            and sends it along its row and its column of ranks
 *     ranks of column k: A[i][k] U^-1      and send theirs along their rows
 *     ranks of row k:    L^-1 A[k][j]      and send theirs along their columns
 *     all:               A[i][j] -= A[i][k] A[k][j]
 *
 * What is done to a block, and in which order, is as there, so the digest is the same. At the end rank 0 has all of it and
 * multiplies: L (U x) has to be what the first matrix makes of x.
 *
 *     mpicc -O2 -o lu_mpi lu_mpi.c -lm
 *     mpiexec -n 4 ./lu_mpi -n512 -b16 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long size = 512, block = 16, blocks, columns, rows, row, column, local_columns;
static int me, processes;
static MPI_Comm along_row, along_column;
/* Blocks of this rank, by its rows of blocks. */
static double *own;

static int owner(long i, long j) {
    return (int)((j % columns) + (i % rows) * columns);
}

/* A block of this rank. */
static double *at(long i, long j) {
    return own + (i / rows * local_columns + j / columns) * block * block;
}

/* How many of `count` come round to a place, one in each `step`. */
static long share(long count, long step, long place) {
    return (count - place + step - 1) / step;
}

static void *memory(size_t bytes) {
    void *found = malloc(bytes > 0 ? bytes : 1);
    if (found == NULL) {
        fprintf(stderr, "lu: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

/* The factors of a diagonal block. */
static void factor(double *a) {
    for (long k = 0; k < block; k++)
        for (long i = k + 1; i < block; i++) {
            double factor = a[i * block + k] /= a[k * block + k];
            for (long j = k + 1; j < block; j++)
                a[i * block + j] -= factor * a[k * block + j];
        }
}

/* A block below the diagonal: x U = a. */
static void divide(double *a, const double *diagonal) {
    for (long i = 0; i < block; i++)
        for (long k = 0; k < block; k++) {
            double factor = a[i * block + k] /= diagonal[k * block + k];
            for (long j = k + 1; j < block; j++)
                a[i * block + j] -= factor * diagonal[k * block + j];
        }
}

/* A block right of the diagonal: L x = a. */
static void solve(double *a, const double *diagonal) {
    for (long k = 0; k < block; k++)
        for (long i = k + 1; i < block; i++) {
            double factor = diagonal[i * block + k];
            for (long j = 0; j < block; j++)
                a[i * block + j] -= factor * a[k * block + j];
        }
}

static void update(double *a, const double *left, const double *above) {
    for (long i = 0; i < block; i++)
        for (long k = 0; k < block; k++) {
            double factor = left[i * block + k];
            for (long j = 0; j < block; j++)
                a[i * block + j] -= factor * above[k * block + j];
        }
}

/* The first number behind k that is this rank's, of those that come round one in each `step`. */
static long first_behind(long k, long step, long place) {
    return k + 1 + (place - (k + 1) % step + step) % step;
}

static void run(void) {
    long bytes = block * block * (long)sizeof(double), values = block * block;
    double *diagonal = memory((size_t)bytes);
    double *left = memory((size_t)(share(blocks, rows, row) * bytes));
    double *above = memory((size_t)(share(blocks, columns, column) * bytes));
    for (long k = 0; k < blocks; k++) {
        int is_left = k % columns == column, is_above = k % rows == row;
        long i0 = first_behind(k, rows, row), j0 = first_behind(k, columns, column), count;
        if (is_left && is_above) {
            factor(at(k, k));
            memcpy(diagonal, at(k, k), (size_t)bytes);
        }
        if (is_left)
            MPI_Bcast(diagonal, (int)values, MPI_DOUBLE, (int)(k % rows), along_column);
        if (is_above)
            MPI_Bcast(diagonal, (int)values, MPI_DOUBLE, (int)(k % columns), along_row);
        count = 0;
        for (long i = i0; i < blocks; i += rows, count++)
            if (is_left) {
                divide(at(i, k), diagonal);
                memcpy(left + count * values, at(i, k), (size_t)bytes);
            }
        MPI_Bcast(left, (int)(count * values), MPI_DOUBLE, (int)(k % columns), along_row);
        count = 0;
        for (long j = j0; j < blocks; j += columns, count++)
            if (is_above) {
                solve(at(k, j), diagonal);
                memcpy(above + count * values, at(k, j), (size_t)bytes);
            }
        MPI_Bcast(above, (int)(count * values), MPI_DOUBLE, (int)(k % rows), along_column);
        for (long i = i0; i < blocks; i += rows)
            for (long j = j0; j < blocks; j += columns)
                update(at(i, j), left + (i - i0) / rows * values, above + (j - j0) / columns * values);
    }
    free(diagonal);
    free(left);
    free(above);
}

/* The next number of the matrix, in the order of its rows. The diagonal dominates, so nothing grows. */
static double next(unsigned long *seed, int is_diagonal) {
    *seed = *seed * 6364136223846793005ul + 1442695040888963407ul;
    double value = (double)(*seed >> 40) / (1 << 24);
    return is_diagonal ? value + (double)size : value;
}

static void fill(void) {
    unsigned long seed = 1;
    for (long i = 0; i < size; i++)
        for (long j = 0; j < size; j++) {
            double value = next(&seed, i == j);
            if (owner(i / block, j / block) == me)
                at(i / block, j / block)[i % block * block + j % block] = value;
        }
}

/* All blocks at rank 0, in the order of lu.c.in; nothing elsewhere. */
static double *gathered(void) {
    int values = (int)(block * block);
    double *all = me == 0 ? memory((size_t)(size * size) * sizeof(double)) : NULL;
    for (long i = 0; i < blocks; i++)
        for (long j = 0; j < blocks; j++) {
            if (owner(i, j) == me && me != 0)
                MPI_Send(at(i, j), values, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
            if (me != 0)
                continue;
            double *place = all + (i * blocks + j) * values;
            if (owner(i, j) == 0)
                memcpy(place, at(i, j), (size_t)values * sizeof(double));
            else
                MPI_Recv(place, values, MPI_DOUBLE, owner(i, j), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    return all;
}

/* The largest difference of L (U x) to what the first matrix makes of x, as a part of the latter. */
static double error(const double *all) {
    double *x = memory((size_t)size * sizeof *x), *y = memory((size_t)size * sizeof *y), largest = 0;
    unsigned long seed = 1;
    for (long i = 0; i < size; i++)
        x[i] = 1 + (double)(i % 7);
#define FACTOR(i, j) all[((i) / block * blocks + (j) / block) * block * block + (i) % block * block + (j) % block]
    for (long i = 0; i < size; i++) {
        y[i] = 0;
        for (long j = i; j < size; j++)
            y[i] += FACTOR(i, j) * x[j];
    }
    for (long i = size - 1; i >= 0; i--)
        for (long j = 0; j < i; j++)
            y[i] += FACTOR(i, j) * y[j];
#undef FACTOR
    for (long i = 0; i < size; i++) {
        double expected = 0;
        for (long j = 0; j < size; j++)
            expected += next(&seed, i == j) * x[j];
        largest = fmax(largest, fabs(y[i] - expected) / fabs(expected));
    }
    free(x);
    free(y);
    return largest;
}

static unsigned long digest(const double *all) {
    unsigned long sum = 14695981039346656037ul, bits;
    for (long i = 0; i < size * size; i++) {
        memcpy(&bits, all + i, sizeof bits);
        sum = (sum ^ bits) * 1099511628211ul;
    }
    return sum;
}

int main(int argc, char **argv) {
    int status = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    for (int i = 1; i < argc; i++) {
        long value = strlen(argv[i]) > 2 ? atol(argv[i] + 2) : 0;
        switch (argv[i][0] == '-' ? argv[i][1] : 0) {
        case 'n': size = value; break;
        case 'b': block = value; break;
        default: block = 0;
        }
    }
    if (block < 1 || size < block || size % block != 0) {
        if (me == 0)
            fprintf(stderr, "usage: lu_mpi -nSIZE -bBLOCK; the size must be a multiple of the block\n");
        MPI_Finalize();
        return 2;
    }
    blocks = size / block;
    for (rows = 1; (rows + 1) * (rows + 1) <= processes; rows++)
        ;
    while (processes % rows != 0)
        rows--;
    columns = processes / rows;
    row = me / columns;
    column = me % columns;
    MPI_Comm_split(MPI_COMM_WORLD, (int)row, (int)column, &along_row);
    MPI_Comm_split(MPI_COMM_WORLD, (int)column, (int)row, &along_column);
    local_columns = share(blocks, columns, column);
    own = memory((size_t)(share(blocks, rows, row) * local_columns * block * block) * sizeof(double));
    fill();
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    run();
    MPI_Barrier(MPI_COMM_WORLD);
    double end = MPI_Wtime();
    double *all = gathered();
    if (me == 0) {
        double found = error(all);
        printf("lu: %ld x %ld, blocks of %ld, %d processes: %016lx\n", size, size, block, processes, digest(all));
        fprintf(stderr, "lu: %.0f us\n", (end - begin) * 1e6);
        if (!(found < 1e-9)) {
            printf("lu: L U differs from the matrix by %g\n", found);
            status = 1;
        }
    }
    free(all);
    free(own);
    MPI_Comm_free(&along_row);
    MPI_Comm_free(&along_column);
    MPI_Finalize();
    return status;
}
