/*
 * Collective operations on MPI_BOTTOM: both buffers have one address, and types that lead from it to two memories.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 3 };

static int rank, size;

/* Numbers at these addresses, from MPI_BOTTOM on; those of the next element follow. */
static MPI_Datatype absolute(int *at, int step) {
    MPI_Aint places[COUNT];
    MPI_Datatype numbers, type;
    for (int i = 0; i < COUNT; i++) {
        MPI_Get_address(at + 2 * i, &places[i]);
    }
    MPI_Type_create_hindexed_block(COUNT, 1, places, MPI_INT, &numbers);
    MPI_Type_create_resized(numbers, 0, (MPI_Aint)(step * (int)sizeof(int)), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&numbers);
    return type;
}

static void expect(const char *what, const int *got) {
    for (int from = 0; from < size; from++) {
        for (int i = 0; i < COUNT; i++) {
            int found = got[2 * COUNT * from + 2 * i], wanted = 100 * from + i;
            if (found != wanted) {
                fprintf(stderr, "absolute: rank %d: %s: %d of %d: %d instead of %d\n", rank, what, i, from, found, wanted);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
}

/* Where the numbers are that the function below combines. */
static MPI_Aint numbers_at;

static void add(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)length, (void)type;
    for (int i = 0; i < COUNT; i++) {
        MPI_Aint at = numbers_at + 2 * i * (MPI_Aint)sizeof(int);
        *(int *)((char *)inout + at) += *(int *)((char *)in + at);
    }
}

/* By a function of the program, in place: its scratch memory is as long as the data, and not as their address. */
static void reduce_in_place(void) {
    int *numbers = calloc(2 * COUNT, sizeof(int));
    MPI_Datatype type = absolute(numbers, 2 * COUNT);
    MPI_Op op;
    MPI_Get_address(numbers, &numbers_at);
    MPI_Op_create(add, 1, &op);
    for (int i = 0; i < COUNT; i++) {
        numbers[2 * i] = rank + i;
    }
    MPI_Allreduce(MPI_IN_PLACE, MPI_BOTTOM, 1, type, op, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        int wanted = size * (size - 1) / 2 + size * i;
        if (numbers[2 * i] != wanted) {
            fprintf(stderr, "absolute: rank %d: allreduce: %d: %d instead of %d\n", rank, i, numbers[2 * i], wanted);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    free(numbers);
}

int main(int argc, char **argv) {
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int what = 0; what < 4; what++) {
        static const char *const names[] = {"allgather", "iallgather", "igather", "ialltoall"};
        int *given = calloc((size_t)(2 * COUNT * size), sizeof(int)), *got = calloc((size_t)(2 * COUNT * size), sizeof(int));
        MPI_Datatype from = absolute(given, 2 * COUNT), to = absolute(got, 2 * COUNT);
        for (int i = 0; i < COUNT * size; i++) {
            given[2 * i] = 100 * rank + i % COUNT;
        }
        switch (what) {
        case 0:
            MPI_Allgather(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, MPI_COMM_WORLD);
            break;
        case 1:
            MPI_Iallgather(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        case 2:
            MPI_Igather(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, 0, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        default:
            MPI_Ialltoall(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (what != 2 || rank == 0) {
            expect(names[what], got);
        }
        MPI_Type_free(&from);
        MPI_Type_free(&to);
        free(given);
        free(got);
    }
    reduce_in_place();
    if (rank == 0) {
        puts("absolute: all right");
    }
    MPI_Finalize();
    return 0;
}
