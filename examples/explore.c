/*
 * An interactive parallel program: whoever sits at it asks, all ranks compute, and the answer comes at once. Rank 0 reads lines
 * `X Y WIDTH` from its standard input; the answer is the share of that square of the plane that belongs to the Mandelbrot set, and how
 * long it took. Beside other jobs it waits for its turn: an answer is late by a slice at most for each of them. A line that is no
 * question is answered by one that says so; the end of input ends the program.
 *
 *   mpiexec -n 4 ./explore
 *   -0.5 0 3
 */
#include <mpi.h>
#include <stdio.h>

enum { SIDE = 256, MOST = 500 };

/* Points of some rows of the square that stay bounded. */
static long bounded(const double square[3], int first, int step) {
    long found = 0;
    for (int row = first; row < SIDE; row += step) {
        double y = square[1] + square[2] * ((row + 0.5) / SIDE - 0.5);
        for (int column = 0; column < SIDE; column++) {
            double x = square[0] + square[2] * ((column + 0.5) / SIDE - 0.5), a = 0, b = 0;
            int left = MOST;
            while (left > 0 && a * a + b * b <= 4) {
                double next = a * a - b * b + x;
                b = 2 * a * b + y;
                a = next;
                left--;
            }
            found += left == 0;
        }
    }
    return found;
}

/* The next question; 0 at the end of input. */
static int ask(double square[3]) {
    char line[200];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%lf %lf %lf", &square[0], &square[1], &square[2]) == 3 && square[2] > 0) {
            return 1;
        }
        puts("a question is X Y WIDTH, as in -0.5 0 3");
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    int rank, ranks, more = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (;;) {
        double square[3] = {0};
        long mine, all = 0;
        if (rank == 0) {
            more = ask(square);
        }
        double start = MPI_Wtime();
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!more) {
            break;
        }
        MPI_Bcast(square, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        mine = bounded(square, rank, ranks);
        MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%.4f of it; %d ranks, %.1f ms\n", (double)all / ((double)SIDE * SIDE), ranks, (MPI_Wtime() - start) * 1e3);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
