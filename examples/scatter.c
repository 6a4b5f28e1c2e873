/*
 * An irregular reduction: edges of a random graph add to the points at both of their ends, which are anybody's. Every rank
 * gathers what it has for the points of each other one, sends it (all to all, lengths differ), and adds what has come.
 *
 *   mpiexec -n 4 ./scatter [points per rank] [edges per rank] [steps]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct part {
    int point, value;
};

static unsigned next(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void *room(size_t bytes) {
    void *found = malloc(bytes);
    if (found == NULL) {
        fprintf(stderr, "scatter: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

int main(int argc, char **argv) {
    int rank, ranks, points = argc > 1 ? atoi(argv[1]) : 2000, edges = argc > 2 ? atoi(argv[2]) : 4000;
    int steps = argc > 3 ? atoi(argv[3]) : 2000;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (points < 1 || edges < 1 || steps < 1) {
        if (rank == 0) {
            fprintf(stderr, "scatter: wants points, edges and steps\n");
        }
        MPI_Finalize();
        return 1;
    }

    size_t most = 2 * (size_t)edges, peers = (size_t)ranks;
    int *ends = room(most * sizeof(int)), *counts = room(peers * sizeof(int)), *places = room(peers * sizeof(int));
    int *in_counts = room(peers * sizeof(int)), *in_places = room(peers * sizeof(int));
    long *sums = calloc((size_t)points, sizeof(long));
    struct part *out = room(most * sizeof(struct part)), *in = NULL;
    size_t in_room = 0;
    unsigned seed = 12345u + (unsigned)rank;
    for (size_t end = 0; end < most; end++) {
        ends[end] = (int)(next(&seed) % (unsigned)(points * ranks));
    }

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < ranks; i++) {
            counts[i] = 0;
        }
        for (size_t end = 0; end < most; end++) {
            counts[ends[end] / points]++;
        }
        for (int i = 0, at = 0; i < ranks; i++) {
            places[i] = at;
            at += counts[i];
            counts[i] = 0;
        }
        for (size_t end = 0; end < most; end++) {
            int owner = ends[end] / points;
            out[places[owner] + counts[owner]++] = (struct part){ends[end] % points, (int)(end % 7) + step % 3};
        }
        MPI_Alltoall(counts, 1, MPI_INT, in_counts, 1, MPI_INT, MPI_COMM_WORLD);
        int all = 0;
        for (int i = 0; i < ranks; i++) {
            in_places[i] = all;
            all += in_counts[i];
        }
        if ((size_t)all > in_room) {
            free(in);
            in_room = (size_t)all;
            in = room(in_room * sizeof(struct part));
        }
        /* Two ints each; the same kind of machine on all ranks. */
        for (int i = 0; i < ranks; i++) {
            counts[i] *= 2, places[i] *= 2, in_counts[i] *= 2, in_places[i] *= 2;
        }
        MPI_Alltoallv(out, counts, places, MPI_INT, in, in_counts, in_places, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < all; i++) {
            sums[in[i].point] += in[i].value;
        }
        /* A few edges move to other points. */
        for (int i = 0; i < edges / 50; i++) {
            ends[next(&seed) % (unsigned)most] = (int)(next(&seed) % (unsigned)(points * ranks));
        }
    }
    double took = MPI_Wtime() - start;

    long mine = 0, total = 0;
    long long expected = 0;
    for (int point = 0; point < points; point++) {
        mine += sums[point];
    }
    for (int step = 0; step < steps; step++) {
        for (size_t end = 0; end < most; end++) {
            expected += (long long)(end % 7) + step % 3;
        }
    }
    MPI_Reduce(&mine, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    int wrong = rank == 0 && total != expected * ranks;
    if (rank == 0) {
        printf("%d points, %d edges, %d ranks: %d steps, sum %ld%s, %.1f us per step\n", points * ranks, edges * ranks, ranks,
               steps, total, wrong ? " (wrong)" : "", took * 1e6 / steps);
    }
    free(ends), free(counts), free(places), free(in_counts), free(in_places), free(sums), free(out), free(in);
    MPI_Finalize();
    return wrong;
}
