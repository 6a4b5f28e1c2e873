/*
 * Every way to send and receive, on ranks 0 and 1; further ranks take part in the barriers. Each check names itself.
 */
#include "../../mpi/programs/check.h"

#undef CHECK

enum { BIG = 200000 };

static int rank, checks;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        checks++;                                                                                                      \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d: %s:%d: not true: %s\n", rank, __FILE__, __LINE__, #condition);                   \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                                              \
        }                                                                                                              \
    } while (0)

static int count_of(const MPI_Status *status, MPI_Datatype type) {
    int count = -1;
    MPI_Get_count(status, type, &count);
    return count;
}

static void blocking_modes(void) {
    int out = 41 + rank, in = 0;
    MPI_Status status;
    if (rank == 0) {
        MPI_Send(&out, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Ssend(&out, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(&in, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &status);
        MPI_Rsend(&out, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Request ready;
        int from_ready = 0;
        /* Received in another order than sent: tags decide. */
        MPI_Request synchronous;
        int from_synchronous = 0;
        MPI_Irecv(&from_synchronous, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &synchronous);
        MPI_Wait(&synchronous, &status);
        CHECK(from_synchronous == 41 && status.MPI_TAG == 2 && status.MPI_SOURCE == 0);
        CHECK(synchronous == MPI_REQUEST_NULL);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK(in == 41 && status.MPI_TAG == 1 && count_of(&status, MPI_INT) == 1);
        MPI_Irecv(&from_ready, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, &ready);
        MPI_Send(&out, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        MPI_Wait(&ready, MPI_STATUS_IGNORE);
        CHECK(from_ready == 41);
    }
}

static void persistent(void) {
    static char data[BIG];
    MPI_Request request;
    MPI_Status status;
    int flag;
    if (rank > 1) {
        return;
    }
    if (rank == 0) {
        MPI_Send_init(data, BIG, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
    } else {
        MPI_Recv_init(data, BIG, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
    }
    MPI_Request kept = request;
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && count_of(&status, MPI_CHAR) == 0);
    for (int i = 0; i < 20; i++) {
        if (rank == 0) {
            memset(data, i, BIG);
        }
        MPI_Start(&request);
        if (i % 2) {
            for (flag = 0; !flag;) {
                MPI_Test(&request, &flag, &status);
            }
        } else {
            MPI_Wait(&request, &status);
        }
        CHECK(request == kept);
        if (rank == 1) {
            CHECK(data[0] == i && data[BIG - 1] == i && status.MPI_SOURCE == 0 && count_of(&status, MPI_CHAR) == BIG);
        }
    }
    int index = 0;
    MPI_Waitany(1, &request, &index, &status);
    CHECK(index == MPI_UNDEFINED);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
}

static void buffered(void) {
    enum { MESSAGES = 50, INTS = 1000 };
    if (rank == 0) {
        int size = MESSAGES * ((int)sizeof(int) * INTS + MPI_BSEND_OVERHEAD);
        char *room = malloc((size_t)size), *back;
        int data[INTS], given;
        MPI_Buffer_attach(room, size);
        for (int i = 0; i < MESSAGES; i++) {
            for (int j = 0; j < INTS; j++) {
                data[j] = i + j;
            }
            MPI_Bsend(data, INTS, MPI_INT, 1, 9, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Buffer_detach(&back, &given);
        CHECK(back == room && given == size);
        free(room);
    } else {
        /* All sends were over before a single receive. */
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; rank == 1 && i < MESSAGES; i++) {
            int data[INTS];
            MPI_Recv(data, INTS, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(data[0] == i && data[INTS - 1] == i + INTS - 1);
        }
    }
}

static void probes(void) {
    static const int sizes[] = {0, 5, 3000, 12000, BIG};
    static char data[BIG];
    MPI_Status status;
    MPI_Message message;
    for (int i = 0; i < 5; i++) {
        if (rank == 0) {
            MPI_Send(data, sizes[i], MPI_CHAR, 1, 20 + i, MPI_COMM_WORLD);
            MPI_Send(data, sizes[i], MPI_CHAR, 1, 30 + i, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Probe(0, 20 + i, MPI_COMM_WORLD, &status);
            CHECK(count_of(&status, MPI_CHAR) == sizes[i] && status.MPI_TAG == 20 + i);
            MPI_Recv(data, sizes[i], MPI_CHAR, 0, 20 + i, MPI_COMM_WORLD, &status);
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
            CHECK(status.MPI_TAG == 30 + i && count_of(&status, MPI_CHAR) == sizes[i]);
            int flag;
            MPI_Iprobe(0, 30 + i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag);
            MPI_Mrecv(data, sizes[i], MPI_CHAR, &message, &status);
            CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == 0 && status.MPI_TAG == 30 + i);
        }
    }
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(data, 1, MPI_CHAR, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL && count_of(&status, MPI_CHAR) == 0);
}

static void cancel(void) {
    int data = 0, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&data, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag && request == MPI_REQUEST_NULL);
}

static void truncation(void) {
    static char data[BIG];
    static const int sizes[] = {10, 3000, 12000, BIG};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 4; i++) {
        if (rank == 0) {
            memset(data, 'x', BIG);
            CHECK(MPI_Send(data, sizes[i], MPI_CHAR, 1, 5, MPI_COMM_WORLD) == MPI_SUCCESS);
        } else if (rank == 1) {
            MPI_Status status;
            int class;
            memset(data, 0, BIG);
            int code = MPI_Recv(data, 5, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &status);
            MPI_Error_class(code, &class);
            CHECK(class == MPI_ERR_TRUNCATE && memcmp(data, "xxxxx\0", 6) == 0);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void to_self(void) {
    static char out[BIG], in[BIG];
    MPI_Request request;
    MPI_Status status;
    for (int size = 1; size <= BIG; size *= 8) {
        memset(out, size % 100, (size_t)size);
        MPI_Isend(out, size, MPI_CHAR, 0, 3, MPI_COMM_SELF, &request);
        MPI_Recv(in, size, MPI_CHAR, 0, 3, MPI_COMM_SELF, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(memcmp(out, in, (size_t)size) == 0 && status.MPI_SOURCE == 0);
        MPI_Sendrecv(out, size, MPI_CHAR, rank, 4, in, size, MPI_CHAR, rank, 4, MPI_COMM_WORLD, &status);
        CHECK(status.MPI_SOURCE == rank && count_of(&status, MPI_CHAR) == size);
    }
}

static int queried, freed;
static int query(void *state, MPI_Status *status) {
    queried++;
    (void)state;
    status->MPI_SOURCE = 7;
    status->MPI_TAG = 8;
    return MPI_SUCCESS;
}
static int release(void *state) {
    freed += *(int *)state;
    return MPI_SUCCESS;
}
static int refuse(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void generalized(void) {
    int state = 3, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Grequest_start(query, release, refuse, &state, &request);
    MPI_Test(&request, &flag, &status);
    CHECK(!flag);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    CHECK(queried == 1 && freed == 3 && status.MPI_SOURCE == 7 && status.MPI_TAG == 8);
}

static void both_ways(void) {
    static char out[BIG], in[BIG];
    MPI_Request request;
    MPI_Status status;
    if (rank > 1) {
        return;
    }
    memset(out, rank + 1, BIG);
    MPI_Isendrecv(out, BIG, MPI_CHAR, 1 - rank, 6, in, BIG, MPI_CHAR, 1 - rank, 6, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK(in[0] == 2 - rank && in[BIG - 1] == 2 - rank);
    /* MPICH 5.0.2 leaves this status as it was. */
    CHECK(status.MPI_SOURCE == 1 - rank || !is_tutti());
    MPI_Isendrecv_replace(out, BIG, MPI_CHAR, 1 - rank, 6, 1 - rank, 6, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK(out[0] == 2 - rank && out[BIG - 1] == 2 - rank);
    MPI_Sendrecv_replace(out, BIG, MPI_CHAR, 1 - rank, 6, 1 - rank, 6, MPI_COMM_WORLD, &status);
    CHECK(out[0] == rank + 1 && count_of(&status, MPI_CHAR) == BIG);
    /* Two blocking sends that cross each other: small ones need no receive to be posted. */
    MPI_Send(out, 1000, MPI_CHAR, 1 - rank, 8, MPI_COMM_WORLD);
    MPI_Recv(in, 1000, MPI_CHAR, 1 - rank, 8, MPI_COMM_WORLD, &status);
    CHECK(in[999] == 2 - rank);
}

int main(int argc, char **argv) {
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2) {
        fprintf(stderr, "modes: needs two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    blocking_modes();
    persistent();
    buffered();
    probes();
    cancel();
    truncation();
    to_self();
    generalized();
    both_ways();
    MPI_Finalize();
    if (rank == 1) {
        printf("%d checks\n", checks);
    }
    return 0;
}
