/*
 * Heat in a plate, by rows: every rank holds a band of rows and exchanges its outermost ones with its neighbours before
 * each step (the halo). The upper edge is hot, the others are cold. Ends when no point changes by more than a limit.
 *
 *   mpiexec -n 4 ./halo [points per side] [most steps]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* One step from `old` to `new` over the rows 1 to `rows`; gives the greatest change. */
static double step(int rows, int side, const double *old, double *new) {
    double change = 0.0;
    for (int row = 1; row <= rows; row++) {
        for (int column = 1; column < side - 1; column++) {
            size_t at = (size_t)row * (size_t)side + (size_t)column;
            new[at] = 0.25 * (old[at - 1] + old[at + 1] + old[at - (size_t)side] + old[at + (size_t)side]);
            change = fmax(change, fabs(new[at] - old[at]));
        }
    }
    return change;
}

int main(int argc, char **argv) {
    int rank, ranks, side = argc > 1 ? atoi(argv[1]) : 256, most = argc > 2 ? atoi(argv[2]) : 2000;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (side < ranks + 2) {
        if (rank == 0) {
            fprintf(stderr, "halo: %d points per side are too few for %d ranks\n", side, ranks);
        }
        MPI_Finalize();
        return 1;
    }

    /* The inner rows are shared out as evenly as they go. At the plate's edges there is no neighbour. */
    int inner = side - 2, rows = inner / ranks + (rank < inner % ranks);
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    size_t points = ((size_t)rows + 2) * (size_t)side;
    double *old = calloc(points, sizeof(double)), *new = calloc(points, sizeof(double));
    if (old == NULL || new == NULL) {
        fprintf(stderr, "halo: no memory for %zu points\n", points);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    for (int column = 0; rank == 0 && column < side; column++) {
        old[column] = new[column] = 100.0;
    }

    double start = MPI_Wtime(), change = INFINITY;
    int steps = 0;
    while (steps < most && change > 1e-3) {
        double *first = old + side, *last = old + (size_t)rows * (size_t)side, *under = last + side;
        /* My first row goes up while the halo below comes from below; then the other way. */
        MPI_Sendrecv(first, side, MPI_DOUBLE, above, 0, under, side, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(last, side, MPI_DOUBLE, below, 1, old, side, MPI_DOUBLE, above, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        double mine = step(rows, side, old, new);
        MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        double *swap = old;
        old = new;
        new = swap;
        steps++;
    }

    double sum = 0.0, total = 0.0;
    for (size_t at = (size_t)side; at < ((size_t)rows + 1) * (size_t)side; at++) {
        sum += old[at];
    }
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d x %d points, %d ranks: %d steps, mean %.6f, last change %.1e, %.1f us per step\n", side, side, ranks,
               steps, total / ((double)inner * side), change, (MPI_Wtime() - start) * 1e6 / steps);
    }
    free(old);
    free(new);
    MPI_Finalize();
    return 0;
}
