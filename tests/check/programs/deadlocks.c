/* Programs that cannot end, one for each name. */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* Everybody receives from the next one before sending. */
static void ring(void) {
    int number = rank;
    MPI_Recv(&number, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&number, 1, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD);
}

/* Everybody sends synchronously before receiving. */
static void sends(void) {
    int number = rank, other;
    MPI_Ssend(&number, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD);
    MPI_Recv(&other, 1, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 0 waits for a message that nobody sends, the others for rank 0. */
static void collective(void) {
    int number;
    if (rank == 0) {
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The tag is wrong; the message has arrived long before. */
static void tag(void) {
    int number = 0;
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(&number, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Irecv(&number, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* Everybody waits for rank 0, which does something else for a while. */
static void late(void) {
    if (rank == 0) {
        sleep(4);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"ring", ring}, {"sends", sends}, {"collective", collective}, {"tag", tag}, {"late", late}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
        }
    }
    MPI_Finalize();
    return 0;
}
