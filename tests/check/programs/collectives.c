/* Collective calls that do not match, one mistake for each name. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size;

static void functions(void) {
    int value = rank;
    if (rank == 1) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

static void roots(void) {
    double values[3] = {0, 0, 0};
    MPI_Bcast(values, 3, MPI_DOUBLE, rank == 2 ? 2 : 0, MPI_COMM_WORLD);
}

static void operations(void) {
    int mine = rank, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, rank == 0 ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD);
}

/* Nothing is wrong with it here. */
static void characters(void) {
    char mine = 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
}

/* Nor with this, in programs older than MPI-4.0. */
static void handler(void) {
    int size;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Type_size(MPI_DATATYPE_NULL, &size);
        MPI_Type_size(MPI_DATATYPE_NULL, &size);
    }
}

static void aliased(void) {
    int both[4] = {rank, rank, rank, rank};
    MPI_Allreduce(MPI_IN_PLACE, both, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(both, rank == 0 ? both + 2 : both, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Allreduce(both, both + 1, 2, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void aliased_pieces(void) {
    int all[64] = {0};
    MPI_Allgather(all + rank, 1, MPI_INT, all + 4, 1, MPI_INT, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Alltoall(all, 2, MPI_INT, all + 1, 2, MPI_INT, MPI_COMM_SELF);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void counts(void) {
    int values[8] = {0};
    MPI_Bcast(values, rank == 3 ? 5 : 4, MPI_INT, 0, MPI_COMM_WORLD);
}

static void types(void) {
    long mine = rank, sum = 0;
    MPI_Reduce(&mine, &sum, 1, rank == 1 ? MPI_DOUBLE : MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void pieces(void) {
    int mine[4] = {rank, rank, rank, rank}, all[64] = {0};
    MPI_Gather(mine, rank == 2 ? 2 : 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

/* Ranks 1, 2, ... of the world are 0, 1, ... of the half. */
static void subset(void) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &half);
    if (half != MPI_COMM_NULL) {
        int value = 0;
        MPI_Comm_set_name(half, "half");
        MPI_Bcast(&value, 1, MPI_INT, rank == 1 ? 0 : 1, half);
        MPI_Comm_free(&half);
    }
}

static void nonblocking(void) {
    int value = 0;
    MPI_Request request;
    if (rank == 0) {
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
    } else {
        MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void creation(void) {
    MPI_Comm made = MPI_COMM_NULL;
    if (rank == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &made);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void finalize(void) {
    if (rank != 0) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void second(void) {
    int value = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&value, 1, MPI_INT, rank % 2, MPI_COMM_WORLD);
}

/* The send buffer of an operation in which rank 1 alone is in place. */
static const void *mine_or_in_place(const int *mine) {
    return rank == 1 ? MPI_IN_PLACE : mine;
}

static void in_place_allreduce(void) {
    int mine = rank, sum = 0;
    MPI_Allreduce(mine_or_in_place(&mine), &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void in_place_allgather(void) {
    int mine = rank, all[64] = {0};
    MPI_Allgather(mine_or_in_place(&mine), 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static void in_place_alltoall(void) {
    int mine[64] = {0}, all[64] = {0};
    MPI_Alltoall(mine_or_in_place(mine), 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static void in_place_block(void) {
    int mine[64] = {0}, sum[64] = {0};
    MPI_Reduce_scatter_block(mine_or_in_place(mine), sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Each rank may be in place as it likes, and the root alone. */
static void in_place_allowed(void) {
    int mine[64] = {0}, sum[64] = {0}, counts[64];
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
    }
    MPI_Reduce_scatter(mine_or_in_place(mine), sum, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Scan(mine_or_in_place(mine), sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Exscan(mine_or_in_place(mine), sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(mine_or_in_place(mine), sum, 1, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
    MPI_Gather(mine_or_in_place(mine), 1, MPI_INT, sum, 1, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"functions", functions}, {"roots", roots},   {"operations", operations}, {"counts", counts},
        {"types", types},         {"pieces", pieces}, {"subset", subset},         {"nonblocking", nonblocking},
        {"creation", creation},   {"second", second}, {"finalize", finalize},   {"characters", characters},
        {"handler", handler},     {"aliased", aliased}, {"aliased_pieces", aliased_pieces},
        {"in_place_allreduce", in_place_allreduce},
        {"in_place_allgather", in_place_allgather},
        {"in_place_alltoall", in_place_alltoall},
        {"in_place_block", in_place_block},
        {"in_place_allowed", in_place_allowed},
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
        }
    }
    MPI_Finalize();
    if (rank == 0) {
        puts("went on to the end");
    }
    return 0;
}
