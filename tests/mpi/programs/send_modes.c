/* The four modes of sending (MPI 3.4), blocking, nonblocking and persistent, with sizes on every way that messages take; and what
 * each mode promises: a synchronous send waits for its receive, a buffered one for nothing. Ranks 0 and 1. */
#include "check.h"

enum { LARGEST = 1 << 20, GO = 1, DATA = 2, LOOKS = 200 };
enum mode { STANDARD, BUFFERED, SYNCHRONOUS, READY, MODES };
enum manner { BLOCKING, NONBLOCKING, PERSISTENT, MANNERS };

static const int sizes[] = {0, 8, 56, 57, 2048, 2049, 16384, 16385, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int rank;
static char data[LARGEST];

static void tell(int to)
{
    MPI_Send(NULL, 0, MPI_CHAR, to, GO, MPI_COMM_WORLD);
}

static void hear(int from)
{
    MPI_Recv(NULL, 0, MPI_CHAR, from, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int start_call(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void send(enum mode mode, enum manner manner, int bytes)
{
    static send_call *const blocking[MODES] = {MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend};
    static start_call *const starting[MODES] = {MPI_Isend, MPI_Ibsend, MPI_Issend, MPI_Irsend};
    static start_call *const preparing[MODES] = {MPI_Send_init, MPI_Bsend_init, MPI_Ssend_init, MPI_Rsend_init};
    MPI_Request request;
    if (manner == BLOCKING) {
        blocking[mode](data, bytes, MPI_CHAR, 1, DATA, MPI_COMM_WORLD);
        return;
    }
    (manner == NONBLOCKING ? starting : preparing)[mode](data, bytes, MPI_CHAR, 1, DATA, MPI_COMM_WORLD, &request);
    if (manner == PERSISTENT)
        MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK((request == MPI_REQUEST_NULL) == (manner == NONBLOCKING));
    if (manner == PERSISTENT)
        MPI_Request_free(&request);
}

/* One message; a ready send only when its receive is posted. */
static void one(enum mode mode, enum manner manner, int bytes, int value)
{
    if (rank == 0) {
        memset(data, value, (size_t)bytes);
        hear(1);
        send(mode, manner, bytes);
        /* A buffer of the user may be changed when its send is complete. */
        memset(data, ~value, (size_t)bytes);
    } else {
        MPI_Request request;
        MPI_Status status;
        int wrong = 0, count = -1;
        memset(data, 0, (size_t)bytes);
        MPI_Irecv(data, LARGEST, MPI_CHAR, 0, DATA, MPI_COMM_WORLD, &request);
        tell(0);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_CHAR, &count);
        for (int i = 0; i < bytes; i++)
            wrong += data[i] != (char)value;
        CHECK(wrong == 0 && count == bytes);
    }
}

/* As long as no receive is posted a synchronous send is not complete; when it is complete, one has been. */
static void synchronous_waits(int bytes)
{
    if (rank == 0) {
        MPI_Request request;
        int flag = 0;
        MPI_Issend(data, bytes, MPI_CHAR, 1, DATA, MPI_COMM_WORLD, &request);
        for (int i = 0; i < LOOKS; i++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag);
        }
        tell(1);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        hear(0);
        MPI_Recv(data, bytes, MPI_CHAR, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Buffered sends are complete before any receive is posted, as many as the buffer holds. */
static void buffered_waits_for_nothing(int bytes)
{
    enum { COUNT = 4 };
    if (rank == 0) {
        void *detached;
        int size;
        for (int i = 0; i < COUNT; i++) {
            memset(data, 10 + i, (size_t)bytes);
            MPI_Bsend(data, bytes, MPI_CHAR, 1, DATA, MPI_COMM_WORLD);
        }
        tell(1);
        MPI_Buffer_detach(&detached, &size);
        MPI_Buffer_attach(detached, size);
    } else {
        hear(0);
        for (int i = 0; i < COUNT; i++) {
            MPI_Recv(data, bytes, MPI_CHAR, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(bytes == 0 || (data[0] == 10 + i && data[bytes - 1] == 10 + i));
        }
    }
}

int main(int argc, char **argv)
{
    enum { BUFFER = 4 * (LARGEST + MPI_BSEND_OVERHEAD) };
    int value = 1, size;
    void *buffer = malloc(BUFFER);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Buffer_attach(buffer, BUFFER);
    for (int i = 0; i < SIZES && rank < 2; i++) {
        for (int mode = 0; mode < MODES; mode++)
            for (int manner = 0; manner < MANNERS; manner++)
                one((enum mode)mode, (enum manner)manner, sizes[i], value++ % 100 + 1);
        synchronous_waits(sizes[i]);
        buffered_waits_for_nothing(sizes[i]);
    }
    MPI_Buffer_detach(&buffer, &size);
    free(buffer);
    return finish("send_modes");
}
