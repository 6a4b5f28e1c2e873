/*
 * A wave through a table: each element needs its left, upper and upper left neighbour (the longest common subsequence of two
 * texts). Every rank has a band of columns; blocks of rows go from rank to rank, so that all work at once after the first few.
 *
 *   mpiexec -n 4 ./wavefront [length of the texts] [steps] [rows per block]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int letter(unsigned text, unsigned at) {
    unsigned x = (at + 1u) * 2654435761u ^ text * 40503u;
    return (int)((x ^ x >> 15) * 2246822519u >> 30);
}

int main(int argc, char **argv) {
    int rank, ranks, length = argc > 1 ? atoi(argv[1]) : 1024, steps = argc > 2 ? atoi(argv[2]) : 300;
    int block = argc > 3 ? atoi(argv[3]) : 16;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (length < ranks || steps < 1 || block < 1) {
        if (rank == 0) {
            fprintf(stderr, "wavefront: texts of %d letters are too short for %d ranks\n", length, ranks);
        }
        MPI_Finalize();
        return 1;
    }

    int columns = length / ranks + (rank < length % ranks);
    int first = rank * (length / ranks) + (rank < length % ranks ? rank : length % ranks);
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
    int *above = malloc(((size_t)columns + 1) * sizeof(int)), *edge = malloc((size_t)block * sizeof(int));
    int *mine = malloc((size_t)block * sizeof(int));
    if (above == NULL || edge == NULL || mine == NULL) {
        fprintf(stderr, "wavefront: no memory for %d columns\n", columns);
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    int result = 0;
    for (int step = 0; step < steps; step++) {
        for (int column = 0; column <= columns; column++) {
            above[column] = 0;
        }
        for (int row = 0; row < length; row += block) {
            int rows = length - row < block ? length - row : block;
            for (int i = 0; i < rows; i++) {
                edge[i] = 0;
            }
            /* The column left of mine, of these rows. */
            MPI_Recv(edge, rows, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < rows; i++) {
                int corner = above[0], beside = edge[i], own = letter((unsigned)step, (unsigned)(row + i));
                above[0] = beside;
                for (int column = 1; column <= columns; column++) {
                    int over = above[column], best = over > beside ? over : beside;
                    if (letter(77u, (unsigned)(first + column - 1)) == own && corner + 1 > best) {
                        best = corner + 1;
                    }
                    corner = over;
                    above[column] = beside = best;
                }
                mine[i] = beside;
            }
            MPI_Send(mine, rows, MPI_INT, right, 0, MPI_COMM_WORLD);
        }
        result = above[columns];
    }
    MPI_Bcast(&result, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD);
    double took = MPI_Wtime() - start;
    if (rank == 0) {
        printf("texts of %d letters, %d ranks: %d steps, %d letters in common at last, %.1f us per step\n", length, ranks,
               steps, result, took * 1e6 / steps);
    }
    free(above);
    free(edge);
    free(mine);
    MPI_Finalize();
    return 0;
}
