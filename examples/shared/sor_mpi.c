/* Successive over-relaxation as in sor.c, by messages: each rank has its band of rows and the row beyond each end of it,
 * which it gets from its neighbours before each colour. At the end rank 0 has the whole grid, and with a fourth word that
 * says `check` it computes all of it alone and compares.
 *
 *     mpicc -O2 -o sor_mpi sor_mpi.c
 *     mpiexec -n 4 ./sor_mpi 256 20 [check]       # points of a side, rounds */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long side = 256, rounds = 20;
static int me, processes;

/* The first row of a rank, of those that change. */
static long first_of(long rank) {
    return 1 + rank * (side - 2) / processes;
}

static double *grid_of(long rows) {
    double *found = calloc((size_t)(rows * side), sizeof(double));
    if (found == NULL) {
        fprintf(stderr, "sor: no memory for %ld rows\n", rows);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

/* The rows from `first` to `end` of a grid whose row `base` comes first. */
static void relax(double *grid, long base, long first, long end, long colour) {
    const double omega = 1.5;
    for (long i = first; i < end; i++)
        for (long j = 1 + (i + colour) % 2; j < side - 1; j += 2) {
            double *at = grid + (i - base) * side + j;
            *at += omega * ((at[-1] + at[1] + at[-side] + at[side]) / 4 - *at);
        }
}

/* The boundary is hot on one side. */
static void heat(double *grid) {
    for (long j = 0; j < side; j++)
        grid[j] = 100;
}

static void run(double *own, long base, long first, long end) {
    int above = me > 0 ? me - 1 : MPI_PROC_NULL, below = me < processes - 1 ? me + 1 : MPI_PROC_NULL, width = (int)side;
    double *begin = own + (first - base) * side, *last = own + (end - 1 - base) * side;
    for (long round = 0; round < 2 * rounds; round++) {
        MPI_Sendrecv(begin, width, MPI_DOUBLE, above, 0, last + side, width, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(last, width, MPI_DOUBLE, below, 1, begin - side, width, MPI_DOUBLE, above, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        relax(own, base, first, end, round % 2);
    }
}

/* All rows at rank 0. */
static void gather(double *all, const double *own, long base) {
    for (int rank = 0; rank < processes; rank++) {
        long first = first_of(rank), end = first_of(rank + 1);
        if (me == rank && me != 0)
            MPI_Send(own + (first - base) * side, (int)((end - first) * side), MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        else if (me == rank)
            memcpy(all + first * side, own + (first - base) * side, (size_t)((end - first) * side) * sizeof *all);
        else if (me == 0)
            MPI_Recv(all + first * side, (int)((end - first) * side), MPI_DOUBLE, rank, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

/* How many points of the grid differ from those that one process finds. */
static long wrong_in(const double *all) {
    double *alone = grid_of(side);
    long wrong = 0;
    heat(alone);
    for (long round = 0; round < 2 * rounds; round++)
        relax(alone, 0, 1, side - 1, round % 2);
    for (long i = 0; i < side * side; i++)
        wrong += memcmp(alone + i, all + i, sizeof *all) != 0;
    free(alone);
    return wrong;
}

static unsigned long digest(const double *all) {
    unsigned long sum = 14695981039346656037ul, bits;
    for (long i = 0; i < side * side; i++) {
        memcpy(&bits, all + i, sizeof bits);
        sum = (sum ^ bits) * 1099511628211ul;
    }
    return sum;
}

int main(int argc, char **argv) {
    int is_checked = argc > 3 && strcmp(argv[3], "check") == 0, status = 0;
    double *all = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (argc > 1)
        side = atol(argv[1]);
    if (argc > 2)
        rounds = atol(argv[2]);
    if (side < processes + 2 || rounds < 0) {
        if (me == 0)
            fprintf(stderr, "usage: sor_mpi SIDE ROUNDS [check]; a row for each rank at the least\n");
        MPI_Finalize();
        return 2;
    }
    long first = first_of(me), end = first_of(me + 1), base = first - 1;
    double *own = grid_of(end - first + 2);
    if (base == 0)
        heat(own);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    run(own, base, first, end);
    MPI_Barrier(MPI_COMM_WORLD);
    double over = MPI_Wtime();
    if (me == 0) {
        all = grid_of(side);
        heat(all);
    }
    gather(all, own, base);
    if (me == 0) {
        printf("sor: %ld x %ld, %ld rounds, %d processes: %016lx\n", side, side, rounds, processes, digest(all));
        fprintf(stderr, "sor: %.0f us\n", (over - start) * 1e6);
        long wrong = is_checked ? wrong_in(all) : 0;
        if (wrong > 0) {
            printf("sor: %ld points differ from those of one process\n", wrong);
            status = 1;
        }
    }
    free(all);
    free(own);
    MPI_Finalize();
    return status;
}
