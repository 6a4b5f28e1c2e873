/*
 * Transposes a square matrix again and again: every rank holds a band of rows, sends each other rank the block that is in its
 * columns (all to all), and turns the blocks round. After an even number of steps the matrix is as it was.
 *
 *   mpiexec -n 4 ./transpose [rows per rank] [steps]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, ranks, rows = argc > 1 ? atoi(argv[1]) : 256, steps = argc > 2 ? atoi(argv[2]) : 500;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rows < 1 || steps < 1) {
        if (rank == 0) {
            fprintf(stderr, "transpose: wants at least one row and one step\n");
        }
        MPI_Finalize();
        return 1;
    }

    size_t side = (size_t)rows * (size_t)ranks, block = (size_t)rows * (size_t)rows;
    double *band = malloc(side * (size_t)rows * sizeof(double));
    double *out = malloc(side * (size_t)rows * sizeof(double)), *in = malloc(side * (size_t)rows * sizeof(double));
    if (band == NULL || out == NULL || in == NULL) {
        fprintf(stderr, "transpose: no memory for %d rows of %zu\n", rows, side);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    for (size_t row = 0; row < (size_t)rows; row++) {
        for (size_t column = 0; column < side; column++) {
            band[row * side + column] = (double)(((size_t)rank * (size_t)rows + row) * side + column);
        }
    }

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        /* The block for each rank in one piece, already turned round. */
        for (size_t to = 0; to < (size_t)ranks; to++) {
            for (size_t row = 0; row < (size_t)rows; row++) {
                for (size_t column = 0; column < (size_t)rows; column++) {
                    out[to * block + column * (size_t)rows + row] = band[row * side + to * (size_t)rows + column];
                }
            }
        }
        MPI_Alltoall(out, (int)block, MPI_DOUBLE, in, (int)block, MPI_DOUBLE, MPI_COMM_WORLD);
        for (size_t from = 0; from < (size_t)ranks; from++) {
            for (size_t row = 0; row < (size_t)rows; row++) {
                for (size_t column = 0; column < (size_t)rows; column++) {
                    band[row * side + from * (size_t)rows + column] = in[from * block + row * (size_t)rows + column];
                }
            }
        }
    }
    double took = MPI_Wtime() - start;

    int wrong = 0, all_wrong = 0;
    for (size_t row = 0; row < (size_t)rows; row++) {
        for (size_t column = 0; column < side; column++) {
            size_t own = (size_t)rank * (size_t)rows + row;
            size_t value = steps % 2 == 0 ? own * side + column : column * side + own;
            wrong += band[row * side + column] != (double)value;
        }
    }
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%zu x %zu matrix, %d ranks: %d steps, %d elements wrong, %.1f us per step\n", side, side, ranks, steps,
               all_wrong, took * 1e6 / steps);
    }
    free(band);
    free(out);
    free(in);
    MPI_Finalize();
    return all_wrong != 0;
}
