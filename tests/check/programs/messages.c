/* Messages between ranks 0 and 1 with a mistake, one for each name. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void types(void) {
    int numbers[4] = {1, 2, 3, 4};
    float places[4];
    if (rank == 0) {
        MPI_Send(numbers, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(places, 4, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* The receive is posted first, completed by MPI_Wait. */
static void posted(void) {
    double numbers[1000] = {0};
    long places[1000];
    MPI_Request request;
    if (rank == 1) {
        MPI_Irecv(places, 1000, MPI_LONG, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Ssend(numbers, 1000, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* Long messages to receives that were posted first: each waits until its receive is known. */
enum { LONG = 20000, TIMES = 3 };
static double longs[LONG], places[LONG];

static void to_receives(MPI_Datatype taken) {
    for (int time = 0; time < TIMES; time++) {
        MPI_Request request;
        if (rank == 0) {
            for (int i = 0; i < LONG; i++) {
                longs[i] = 7 * time + i;
            }
            MPI_Recv(NULL, 0, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(longs, LONG, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Irecv(places, LONG, taken, 0, 5, MPI_COMM_WORLD, &request);
            MPI_Send(NULL, 0, MPI_INT, 0, 4, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (int i = 0; i < LONG; i++) {
                if (places[i] != 7 * time + i) {
                    MPI_Abort(MPI_COMM_WORLD, 9);
                }
            }
        }
    }
}

static void written(void) {
    to_receives(MPI_DOUBLE);
}

static void written_otherwise(void) {
    to_receives(MPI_LONG);
}

/* An int and a double against two doubles: the same bytes in memory, not in the message. */
static void structures(void) {
    struct {
        int first;
        double second;
    } pair = {1, 2};
    const int lengths[2] = {1, 1};
    const MPI_Aint places[2] = {0, 8};
    const MPI_Datatype members[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Datatype both;
    MPI_Type_create_struct(2, lengths, places, members, &both);
    MPI_Type_commit(&both);
    if (rank == 0) {
        MPI_Send(&pair, 1, both, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        double numbers[2];
        MPI_Recv(numbers, 2, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&both);
}

static void self(void) {
    int number = 1;
    float place;
    MPI_Sendrecv(&number, 1, MPI_INT, rank, 2, &place, 1, MPI_FLOAT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receives(void) {
    int numbers[10] = {0};
    MPI_Request requests[2];
    if (rank == 1) {
        MPI_Irecv(numbers, 6, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(numbers + 5, 5, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 0) {
        MPI_Send(numbers, 6, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Send(numbers, 5, MPI_INT, 1, 2, MPI_COMM_WORLD);
    }
}

static void send_of_receive(void) {
    int numbers[10] = {0};
    MPI_Request request;
    if (rank == 1) {
        MPI_Irecv(numbers, 10, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Send(numbers, 10, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        MPI_Recv(numbers, 10, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(numbers, 10, MPI_INT, 1, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"types", types}, {"posted", posted},     {"structures", structures},
        {"self", self},   {"receives", receives}, {"send_of_receive", send_of_receive},
        {"written", written}, {"written_otherwise", written_otherwise},
    };
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
