/* A plate that cools, on a square of ranks (1, 4, 9, 16): each step swaps borders with four neighbours, columns as a datatype. The
 * first mode of the discrete plate falls by a known factor each step.
 *
 * plate [SIDE], which the root of the number of ranks divides, default 144. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 60 };

int main(int argc, char **argv)
{
    int size, rank, dims[2] = {0, 0}, periods[2] = {0, 0}, place[2], up, down, left, right_side;
    MPI_Comm grid;
    MPI_Datatype column;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, place);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right_side);
    int side = argc > 1 ? atoi(argv[1]) : 144, rows = side / dims[0], columns = side / dims[1], width = columns + 2;
    double *u = calloc((size_t)(rows + 2) * (size_t)width, sizeof *u), *v = calloc((size_t)(rows + 2) * (size_t)width, sizeof *v);
    double h = 1.0 / (side + 1), pi = acos(-1.0), k = 0.2, off = 0, most;
#define AT(a, y, x) (a)[(size_t)(y) * (size_t)width + (size_t)(x)]
#define MODE(y, x) (sin(pi * h * (place[0] * rows + (y))) * sin(pi * h * (place[1] * columns + (x))))
    for (int y = 1; y <= rows; y++)
        for (int x = 1; x <= columns; x++)
            AT(u, y, x) = MODE(y, x);
    MPI_Type_vector(rows, 1, width, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int step = 0; step < STEPS; step++) {
        MPI_Sendrecv(&AT(u, 1, 1), columns, MPI_DOUBLE, up, 0, &AT(u, rows + 1, 1), columns, MPI_DOUBLE, down, 0, grid,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&AT(u, rows, 1), columns, MPI_DOUBLE, down, 1, &AT(u, 0, 1), columns, MPI_DOUBLE, up, 1, grid,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&AT(u, 1, 1), 1, column, left, 2, &AT(u, 1, columns + 1), 1, column, right_side, 2, grid,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&AT(u, 1, columns), 1, column, right_side, 3, &AT(u, 1, 0), 1, column, left, 3, grid,
                     MPI_STATUS_IGNORE);
        for (int y = 1; y <= rows; y++)
            for (int x = 1; x <= columns; x++)
                AT(v, y, x) = AT(u, y, x) + k * (AT(u, y - 1, x) + AT(u, y + 1, x) + AT(u, y, x - 1) + AT(u, y, x + 1) -
                                                 4 * AT(u, y, x));
        double *t = u;
        u = v;
        v = t;
    }
    double factor = pow(1 - 8 * k * pow(sin(pi * h / 2), 2), STEPS);
    for (int y = 1; y <= rows; y++)
        for (int x = 1; x <= columns; x++)
            off = fmax(off, fabs(AT(u, y, x) - factor * MODE(y, x)));
    MPI_Allreduce(&off, &most, 1, MPI_DOUBLE, MPI_MAX, grid);
    int verified = rows * dims[0] == side && columns * dims[1] == side && most < 1e-12;
    if (rank == 0)
        printf("plate: %d x %d ranks, off by %.1e: %s\n", dims[0], dims[1], most, verified ? "verified" : "WRONG");
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    free(u);
    free(v);
    MPI_Finalize();
    return !verified;
}
