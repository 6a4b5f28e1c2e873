/* What a program may leave behind, one for each name. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void messages(void) {
    int numbers[10] = {0};
    if (rank == 0) {
        MPI_Request request;
        for (int i = 0; i < 3; i++) {
            MPI_Send(numbers, 10, MPI_INT, 1, 40 + i, MPI_COMM_WORLD);
        }
        MPI_Isend(numbers, 10, MPI_INT, 1, 50, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
}

static void requests(void) {
    static int number, place;
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(&number, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    } else if (rank == 1) {
        MPI_Recv(&place, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(&number, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
    } else {
        MPI_Recv_init(&number, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
    }
}

static void handles(void) {
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype pair, triple;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_contiguous(3, MPI_INT, &triple);
    MPI_Type_free(&triple);
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"messages", messages}, {"requests", requests}, {"handles", handles}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
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
