/* An error of a request is raised on the communicator of its operation, with its rank, tag and sizes in the text, whichever call
 * completes it; nothing is raised on MPI_COMM_SELF, whose handler is fatal. Two ranks; the communicator's ranks are turned
 * round, so that a world rank in a text would be wrong. */
#include "check.h"

/* So many messages are received; the receive that is started again takes two. */
enum { TAG = 31, RECEIVES = 13 };

static MPI_Comm comm, half;
static int rank, calls;
static MPI_Comm raised_on = MPI_COMM_NULL;
static char text[MPI_MAX_ERROR_STRING];

static void handler(MPI_Comm *on, int *code, ...)
{
    int length;
    raised_on = *on;
    calls++;
    MPI_Error_string(*code, text, &length);
}

/* The last call was an error with this class, told to the handler of `comm` in these words. */
static void raised(int code, int class, const char *words, int line)
{
    int length;
    char found[MPI_MAX_ERROR_STRING] = "";
    check(class_of(code) == class, "the class", line);
    MPI_Error_string(code, found, &length);
    check(calls == 1 && raised_on == comm, "one call of the communicator's handler", line);
    if (is_tutti() && (!strstr(text, words) || !strstr(found, words))) {
        fprintf(stderr, "line %d: \"%s\" is not in \"%s\"\n", line, words, text);
        failures++;
    }
    calls = 0;
    raised_on = MPI_COMM_NULL;
}
#define RAISED(code, class, words) raised(code, class, words, __LINE__)

/* Rank 0 of comm sends 3 integers, rank 1 has room for one. */
static const char *const LONG_MESSAGE = "the message from rank 0 with tag 31 has 12 bytes, the receive buffer has room for 4";

static void sends(int times)
{
    int data[3] = {1, 2, 3};
    for (int i = 0; i < times; i++)
        MPI_Send(data, 3, MPI_INT, 1, TAG, comm);
}

static void receives(void)
{
    int data[3], flag, index, indices[2], count;
    MPI_Request request, requests[2];
    MPI_Status status, statuses[2];
    MPI_Message message;

    RAISED(MPI_Recv(data, 1, MPI_INT, 0, TAG, comm, &status), MPI_ERR_TRUNCATE, LONG_MESSAGE);

    MPI_Irecv(data, 1, MPI_INT, MPI_ANY_SOURCE, TAG, comm, &request);
    RAISED(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE, LONG_MESSAGE);
    CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == TAG && request == MPI_REQUEST_NULL);

    MPI_Irecv(data, 1, MPI_INT, 0, MPI_ANY_TAG, comm, &request);
    int code = MPI_SUCCESS;
    for (flag = 0; !flag;)
        code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    RAISED(code, MPI_ERR_TRUNCATE, LONG_MESSAGE);

    MPI_Irecv(data, 1, MPI_INT, 0, TAG, comm, &requests[0]);
    requests[1] = MPI_REQUEST_NULL;
    RAISED(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS, LONG_MESSAGE);
    CHECK(statuses[0].MPI_ERROR == MPI_ERR_TRUNCATE && statuses[1].MPI_ERROR == MPI_SUCCESS);

    MPI_Irecv(data, 1, MPI_INT, 0, TAG, comm, &requests[0]);
    RAISED(MPI_Waitany(2, requests, &index, &status), MPI_ERR_TRUNCATE, LONG_MESSAGE);

    MPI_Irecv(data, 1, MPI_INT, 0, TAG, comm, &requests[0]);
    RAISED(MPI_Waitsome(2, requests, &count, indices, statuses), MPI_ERR_IN_STATUS, LONG_MESSAGE);

    MPI_Irecv(data, 1, MPI_INT, 0, TAG, comm, &requests[0]);
    for (flag = 0; !flag;)
        code = MPI_Testall(2, requests, &flag, statuses);
    RAISED(code, MPI_ERR_IN_STATUS, LONG_MESSAGE);

    MPI_Mprobe(0, TAG, comm, &message, &status);
    RAISED(MPI_Mrecv(data, 1, MPI_INT, &message, &status), MPI_ERR_TRUNCATE, LONG_MESSAGE);

    MPI_Mprobe(0, TAG, comm, &message, &status);
    MPI_Imrecv(data, 1, MPI_INT, &message, &request);
    RAISED(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE, LONG_MESSAGE);

    MPI_Recv_init(data, 1, MPI_INT, 0, TAG, comm, &request);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&request);
        RAISED(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE, LONG_MESSAGE);
    }
    MPI_Request_free(&request);

    MPI_Isendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, data, 1, MPI_INT, 0, TAG, comm, &request);
    RAISED(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE, LONG_MESSAGE);

    RAISED(MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, data, 1, MPI_INT, 0, TAG, comm, &status), MPI_ERR_TRUNCATE,
           LONG_MESSAGE);
}


/* Rank 0 gives more than rank 1 expects: which collective, and the sizes. */
static void collectives(void)
{
    const char *sizes = "rank 0 sent 40000 bytes, 20000 were expected";
    static int data[10000];
    MPI_Request request;
    int code, count = rank == 0 ? 10000 : 5000;

    MPI_Ibcast(data, count, MPI_INT, 0, comm, &request);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1) {
        CHECK(strstr(text, "MPI_Wait: MPI_Ibcast: ") || !is_tutti());
        RAISED(code, MPI_ERR_TRUNCATE, sizes);
    }
    MPI_Bcast_init(data, count, MPI_INT, 0, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1)
        RAISED(code, MPI_ERR_TRUNCATE, "MPI_Wait: MPI_Bcast_init: rank 0 sent 40000 bytes, 20000 were expected");
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    int world, size;
    MPI_Errhandler made;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, world < 2 ? 0 : MPI_UNDEFINED, -world, &half);
    if (half != MPI_COMM_NULL) {
        MPI_Comm_dup(half, &comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_create_errhandler(handler, &made);
        MPI_Comm_set_errhandler(comm, made);
        MPI_Errhandler_free(&made);
        if (rank == 0)
            sends(RECEIVES);
        else
            receives();
        MPI_Barrier(half);
        /* Nonblocking collectives that do not match are found by messages. */
        if (is_tutti())
            collectives();
        MPI_Barrier(half);
        CHECK(calls == 0);
        MPI_Comm_free(&comm);
        MPI_Comm_free(&half);
    }
    return finish("request_errors");
}
