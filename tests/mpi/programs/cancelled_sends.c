/* MPI_Wait behind MPI_Cancel of a send returns whether the receiver takes the message or not, and says which; what was cancelled
 * never arrives, what was not arrives whole and in order (MPI 3.8.4). Ranks 0 and 1; rank 1 only waits for other messages. */
#include "check.h"

enum { CANCELLED = 1, GO = 2, LARGE = 300000, ROUNDS = 60 };

static int rank;
static char data[LARGE], room[LARGE];

/* Cancels a send and waits for it; whether it was cancelled. */
static int take_back(MPI_Request *request)
{
    MPI_Status status;
    int flag = -1;
    MPI_Cancel(request);
    MPI_Wait(request, &status);
    CHECK(*request == MPI_REQUEST_NULL);
    MPI_Test_cancelled(&status, &flag);
    return flag;
}

/* Nobody receives them: they are cancelled. */
static void unmatched(int to)
{
    MPI_Request request;
    int other = -1, other_rank = -1;
    if (rank == 0) {
        for (int bytes = 1; bytes <= LARGE; bytes *= 600) {
            MPI_Issend(data, bytes, MPI_CHAR, to, CANCELLED, MPI_COMM_WORLD, &request);
            CHECK(take_back(&request) == 1);
        }
        MPI_Isend(data, LARGE, MPI_CHAR, to, CANCELLED, MPI_COMM_WORLD, &request);
        CHECK(take_back(&request) == 1);
        MPI_Ssend_init(data, 10, MPI_CHAR, to, CANCELLED, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 2; i++) {
            MPI_Status status;
            int flag = -1;
            MPI_Start(&request);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag == 1);
        }
        MPI_Request_free(&request);
        /* The handle may go before the answer comes. */
        MPI_Issend(data, 10, MPI_CHAR, to, CANCELLED, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Request_free(&request);
        if (to != rank)
            MPI_Send(&rank, 1, MPI_INT, to, GO, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&other, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == to) {
        int flag = -1;
        MPI_Iprobe(0, CANCELLED, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(flag == 0);
    }
    /* What rank 0 sends next is not looked for here. */
    if (to != 0 && rank == to)
        MPI_Send(&rank, 1, MPI_INT, 0, GO, MPI_COMM_WORLD);
    if (to != 0 && rank == 0)
        MPI_Recv(&other_rank, 1, MPI_INT, to, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 1 receives while rank 0 cancels: each message is cancelled or received, never both. */
static void races(void)
{
    int sent = 0, received = 0, flag, expected = -1;
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 3 == 0 ? LARGE : round % 3 == 1 ? 10 : 20000;
        if (rank == 0) {
            MPI_Request request;
            memset(data, round, bytes);
            if (round % 2)
                MPI_Isend(data, bytes, MPI_CHAR, 1, CANCELLED, MPI_COMM_WORLD, &request);
            else
                MPI_Issend(data, bytes, MPI_CHAR, 1, CANCELLED, MPI_COMM_WORLD, &request);
            for (volatile int i = 0; i < round * 500; i++)
                ;
            sent += !take_back(&request);
            memset(data, -1, bytes);
            MPI_Send(&sent, 1, MPI_INT, 1, GO, MPI_COMM_WORLD);
            /* The next message must not be there before the receive of this round is taken back. */
            MPI_Recv(NULL, 0, MPI_INT, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Request request;
            MPI_Status status;
            /* Sometimes the message is there first. */
            for (volatile int i = 0; round % 4 < 2 && i < 300000; i++)
                ;
            MPI_Irecv(room, LARGE, MPI_CHAR, 0, CANCELLED, MPI_COMM_WORLD, &request);
            MPI_Recv(&expected, 1, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (received == expected)
                MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            received += !flag;
            CHECK(received == expected);
            if (!flag) {
                int count;
                MPI_Get_count(&status, MPI_CHAR, &count);
                CHECK(count == bytes && room[0] == (char)round && room[bytes - 1] == (char)round);
            }
            MPI_Send(NULL, 0, MPI_INT, 0, GO, MPI_COMM_WORLD);
        }
    }
    if (rank == 0)
        printf("%d of %d were sent\n", sent, ROUNDS);
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        unmatched(0);
    if (size > 1 && rank < 2) {
        unmatched(1);
        races();
    }
    return finish("cancelled_sends");
}
