/* Partitioned messages (MPI chapter 4): order of matching, different partitions on both sides, types with gaps, large data, early
 * arrival, several rounds, wrong arguments. Ranks 0 and 1; each rank also with itself. */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include "check.h"
#include <unistd.h>

enum { ROUNDS = 5, ONE = 77, TWO = 78 };

static int rank;

/* Waits until a partition is there. */
static void await(MPI_Request receive, int partition)
{
    int flag = 0;
    while (!flag)
        MPI_Parrived(receive, partition, &flag);
}

/* So many elements in `out` partitions at the sender and `in` at the receiver, partitions ready in odd order. */
static void cut(int from, int to, int elements, int out, int in)
{
    MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
    MPI_Status status;
    int *sent = malloc(sizeof *sent * (size_t)elements), *received = malloc(sizeof *received * (size_t)elements);
    if (rank == to)
        MPI_Precv_init(received, in, elements / in, MPI_INT, from, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    if (rank == from)
        MPI_Psend_init(sent, out, elements / out, MPI_INT, to, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    for (int round = 0; round < ROUNDS; round++) {
        int wrong = 0, count = -1;
        if (rank == to) {
            for (int i = 0; i < elements; i++)
                received[i] = -1;
            MPI_Start(&receive);
        }
        if (rank == from) {
            for (int i = 0; i < elements; i++)
                sent[i] = round * 1000003 + i;
            MPI_Start(&send);
            for (int i = 1; i < out; i += 2)
                MPI_Pready(i, send);
            for (int i = (out - 1) / 2 * 2; i >= 0; i -= 2)
                MPI_Pready(i, send);
        }
        if (rank == to) {
            for (int i = 0; i < in; i++) {
                int size = elements / in, *part = received + i * size;
                await(receive, i);
                for (int k = 0; k < size; k++)
                    wrong += part[k] != round * 1000003 + i * size + k;
            }
            CHECK(wrong == 0);
            CHECK(MPI_Wait(&receive, &status) == MPI_SUCCESS);
            CHECK(receive != MPI_REQUEST_NULL);
            if (is_tutti()) {
                MPI_Get_count(&status, MPI_INT, &count);
                CHECK(status.MPI_SOURCE == from && status.MPI_TAG == ONE && count == elements);
            }
        }
        if (rank == from)
            CHECK(MPI_Wait(&send, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    if (rank == from)
        MPI_Request_free(&send);
    if (rank == to)
        MPI_Request_free(&receive);
    free(sent);
    free(received);
}

/* Many small partitions, ready in runs by all three calls, in an order that leaves holes; the receiver is elsewhere meanwhile. */
static void many(int partitions, int theirs, int elements)
{
    int total = partitions * elements, *data = calloc((size_t)total, sizeof *data), *list = calloc((size_t)partitions, sizeof *list);
    MPI_Request request;
    if (rank == 0)
        MPI_Psend_init(data, partitions, elements, MPI_INT, 1, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, theirs, total / theirs, MPI_INT, 0, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < 3; round++) {
        int wrong = 0, flag = 0, count = 0, third = partitions / 3;
        for (int i = 0; i < total; i++)
            data[i] = rank == 0 ? round * 1000003 + i : -1;
        MPI_Start(&request);
        if (rank == 0) {
            for (int i = third; i < 2 * third; i += 3)
                MPI_Pready(i, request);
            MPI_Pready_range(2 * third, partitions - 1, request);
            for (int i = third; i < 2 * third; i++)
                if ((i - third) % 3 != 0)
                    list[count++] = i;
            MPI_Pready_list(count, list, request);
            for (int i = third - 1; i >= 0; i--)
                MPI_Pready(i, request);
        }
        if (round == 1)
            MPI_Sendrecv(NULL, 0, MPI_INT, 1 - rank, TWO, NULL, 0, MPI_INT, 1 - rank, TWO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; rank == 1 && round == 2 && i < theirs; i++)
            await(request, i);
        while (!flag)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        for (int i = 0; i < total; i++)
            wrong += data[i] != round * 1000003 + i;
        CHECK(wrong == 0);
    }
    MPI_Request_free(&request);
    free(data);
    free(list);
}

/* Partitions that come while the receiver sleeps in a wait, one by one: the last wakes it. */
static void slowly(void)
{
    enum { PARTITIONS = 5 };
    int data[PARTITIONS], wrong = 0;
    MPI_Request request;
    for (int i = 0; i < PARTITIONS; i++)
        data[i] = rank == 0 ? i + 50 : -1;
    if (rank == 0)
        MPI_Psend_init(data, PARTITIONS, 1, MPI_INT, 1, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, PARTITIONS, 1, MPI_INT, 0, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    for (int i = 0; rank == 0 && i < PARTITIONS; i++) {
        for (double start = MPI_Wtime(); MPI_Wtime() - start < 0.02;)
            ;
        MPI_Pready(i, request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < PARTITIONS; i++)
        wrong += data[i] != i + 50;
    CHECK(wrong == 0);
    MPI_Request_free(&request);
}

/* More sends at once to one rank than have memory of their own in common with it, each partition ready by itself, more than that
 * memory holds. The receiver has started none of them when the first start is over for the sender, and sleeps meanwhile. */
static void one_by_one(void)
{
    enum { SENDS = 6, PARTITIONS = 5000, TIMES = 2 };
    static long data[SENDS][PARTITIONS];
    MPI_Request request[SENDS];
    for (int time = 0; time < TIMES; time++) {
        for (int k = 0; k < SENDS; k++) {
            if (rank == 0)
                MPI_Psend_init(data[k], PARTITIONS, 1, MPI_LONG, 1, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request[k]);
            else
                MPI_Precv_init(data[k], PARTITIONS, 1, MPI_LONG, 0, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request[k]);
        }
        for (int round = 0; round < 3; round++) {
            int wrong = 0;
            for (int k = 0; k < SENDS; k++)
                for (int i = 0; i < PARTITIONS; i++)
                    data[k][i] = rank == 0 ? 1000003L * (round + k) + i : -1;
            if (rank == 0) {
                MPI_Startall(SENDS, request);
                for (int i = 0; i < PARTITIONS; i++)
                    for (int k = 0; k < SENDS; k++)
                        MPI_Pready(i, request[k]);
                MPI_Send(NULL, 0, MPI_BYTE, 1, TWO, MPI_COMM_WORLD);
            } else {
                MPI_Recv(NULL, 0, MPI_BYTE, 0, TWO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Startall(SENDS, request);
                for (int k = 0; round == 1 && k < SENDS; k++)
                    await(request[k], PARTITIONS - 1);
            }
            MPI_Waitall(SENDS, request, MPI_STATUSES_IGNORE);
            for (int k = 0; k < SENDS; k++)
                for (int i = 0; i < PARTITIONS; i++)
                    wrong += data[k][i] != 1000003L * (round + k) + i;
            CHECK(wrong == 0);
        }
        for (int k = 0; k < SENDS; k++)
            MPI_Request_free(&request[k]);
    }
}

/* The first of two partitions is seen before the second one is ready, which the sender makes so only when it has been told. */
static void early(int elements)
{
    int *data = malloc(2 * sizeof *data * (size_t)elements), wrong = 0, flag = 1;
    MPI_Request request;
    for (int i = 0; i < 2 * elements; i++)
        data[i] = rank == 0 ? i + 5 : -1;
    if (rank == 0) {
        MPI_Psend_init(data, 2, elements, MPI_INT, 1, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Pready(0, request);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TWO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Pready(1, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Precv_init(data, 2, elements, MPI_INT, 0, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        await(request, 0);
        for (int i = 0; i < elements; i++)
            wrong += data[i] != i + 5;
        CHECK(wrong == 0);
        MPI_Parrived(request, 1, &flag);
        CHECK(!flag);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        MPI_Send(NULL, 0, MPI_BYTE, 0, TWO, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = elements; i < 2 * elements; i++)
            wrong += data[i] != i + 5;
        CHECK(wrong == 0);
        MPI_Request_free(&request);
    }
    free(data);
}

/* Partitions that are ready one behind the other are seen while their sender computes and calls nothing: it goes on when the receiver
 * has removed a file. It begins at once, or after some time without a call. Where they share no files it cannot be told so. */
static void while_computing(double before)
{
    enum { PARTITIONS = 100, HALF = 50 };
    char path[] = "/tmp/partitioned-XXXXXX";
    long data[PARTITIONS];
    int wrong = 0, flag = 1, shared = 0;
    MPI_Request request;
    for (int i = 0; i < PARTITIONS; i++)
        data[i] = rank == 0 ? i + 9 : -1;
    if (rank == 0) {
        MPI_Recv(path, sizeof path, MPI_CHAR, 1, ONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        shared = access(path, F_OK) == 0;
        MPI_Send(&shared, 1, MPI_INT, 1, ONE, MPI_COMM_WORLD);
        if (!shared)
            return;
        MPI_Psend_init(data, PARTITIONS, 1, MPI_LONG, 1, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        for (double start = MPI_Wtime(); MPI_Wtime() - start < before;)
            ;
        for (int i = 0; i < HALF; i++)
            MPI_Pready(i, request);
        while (access(path, F_OK) == 0)
            ;
        for (int i = HALF; i < PARTITIONS; i++)
            MPI_Pready(i, request);
    } else if (rank == 1) {
        close(mkstemp(path));
        MPI_Send(path, sizeof path, MPI_CHAR, 0, ONE, MPI_COMM_WORLD);
        MPI_Recv(&shared, 1, MPI_INT, 0, ONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!shared) {
            unlink(path);
            return;
        }
        MPI_Precv_init(data, PARTITIONS, 1, MPI_LONG, 0, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        await(request, HALF - 1);
        MPI_Parrived(request, HALF, &flag);
        CHECK(!flag);
        unlink(path);
    } else {
        return;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < PARTITIONS; i++)
        wrong += data[i] != i + 9;
    CHECK(wrong == 0);
    MPI_Request_free(&request);
}

/* Three of the same tag match in the order in which they are made, whatever the order of their starts; ordinary messages of that
 * tag go between them and match none. */
static void in_order(void)
{
    int data[3] = {-1, -1, -1}, plain = rank == 0 ? 99 : -1;
    MPI_Request request[3];
    if (rank > 1)
        return;
    for (int i = 0; i < 3; i++) {
        if (rank == 0) {
            data[i] = 100 + i;
            MPI_Psend_init(&data[i], 1, 1, MPI_INT, 1, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request[i]);
        } else {
            MPI_Precv_init(&data[i], 1, 1, MPI_INT, 0, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request[i]);
        }
    }
    if (rank == 0) {
        for (int i = 2; i >= 0; i--) {
            MPI_Start(&request[i]);
            MPI_Pready(0, request[i]);
        }
        MPI_Send(&plain, 1, MPI_INT, 1, ONE, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&plain, 1, MPI_INT, 0, ONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(plain == 99);
        MPI_Startall(3, request);
    }
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++) {
        CHECK(data[i] == 100 + i);
        MPI_Request_free(&request[i]);
    }
}

/* Columns of a matrix into rows: the cuts of the sender fall into the middle of the receiver's elements. */
static void with_gaps(void)
{
    enum { ROWS = 6, COLUMNS = 4 };
    int matrix[ROWS][COLUMNS], row[ROWS * COLUMNS], wrong = 0;
    MPI_Datatype column, resized, triple;
    MPI_Request request;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &resized);
    MPI_Type_contiguous(3, MPI_INT, &triple);
    MPI_Type_commit(&resized);
    MPI_Type_commit(&triple);
    if (rank == 0) {
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < COLUMNS; k++)
                matrix[i][k] = 10 * i + k;
        MPI_Psend_init(matrix, COLUMNS, 1, resized, 1, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        /* The operation keeps what it needs of the type. */
        MPI_Type_free(&resized);
        MPI_Start(&request);
        MPI_Pready_range(0, COLUMNS - 2, request);
        MPI_Pready_list(1, (int[]){COLUMNS - 1}, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        memset(row, -1, sizeof row);
        MPI_Precv_init(row, ROWS * COLUMNS / 3, 1, triple, 0, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int k = 0; k < COLUMNS; k++)
            for (int i = 0; i < ROWS; i++)
                wrong += row[k * ROWS + i] != 10 * i + k;
        CHECK(wrong == 0);
        MPI_Request_free(&request);
    }
    if (rank != 0)
        MPI_Type_free(&resized);
    MPI_Type_free(&column);
    MPI_Type_free(&triple);
}

/* Cuts of the sender inside of elements with gaps of the receiver. */
static void into_gaps(void)
{
    enum { ELEMENTS = 4, PARTS = 3 };
    int out[12], in[ELEMENTS * 5], wrong = 0;
    MPI_Datatype gappy, resized;
    MPI_Request request;
    MPI_Type_indexed(2, (int[]){2, 1}, (int[]){0, 3}, MPI_INT, &gappy);
    MPI_Type_create_resized(gappy, 0, 5 * sizeof(int), &resized);
    MPI_Type_commit(&resized);
    if (rank == 0) {
        for (int i = 0; i < 12; i++)
            out[i] = i;
        MPI_Psend_init(out, PARTS, 4, MPI_INT, 1, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Pready_range(0, PARTS - 1, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        memset(in, -1, sizeof in);
        MPI_Precv_init(in, ELEMENTS, 1, resized, 0, TWO, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0, next = 0; i < ELEMENTS * 5; i++)
            wrong += in[i] != (i % 5 == 2 || i % 5 == 4 ? -1 : next++);
        CHECK(wrong == 0);
        MPI_Request_free(&request);
    }
    MPI_Type_free(&resized);
    MPI_Type_free(&gappy);
}

static void nobody(void)
{
    int data[2] = {1, 2}, flag = 0;
    MPI_Request send, receive;
    MPI_Status status;
    MPI_Psend_init(data, 2, 1, MPI_INT, MPI_PROC_NULL, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(data, 2, 1, MPI_INT, MPI_PROC_NULL, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    MPI_Start(&send);
    MPI_Start(&receive);
    MPI_Pready_range(0, 1, send);
    MPI_Parrived(receive, 1, &flag);
    CHECK(flag);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
}

/* No partitions, or partitions without data on one side and none on the other: nothing to wait for but each other. */
static void none(int from, int to, int sent, int received)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int flag = 0;
    if (rank == from && rank == to) {
        MPI_Request both[2];
        MPI_Psend_init(NULL, sent, 0, MPI_INT, to, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]);
        MPI_Precv_init(NULL, received, 0, MPI_INT, from, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]);
        for (int round = 0; round < 2; round++) {
            MPI_Startall(2, both);
            for (int i = 0; i < sent; i++)
                MPI_Pready(i, both[0]);
            MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        }
        MPI_Request_free(&both[0]);
        MPI_Request_free(&both[1]);
        return;
    }
    if (rank == from)
        MPI_Psend_init(NULL, sent, 0, MPI_INT, to, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(NULL, received, 0, MPI_INT, from, ONE, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < 2; round++) {
        MPI_Start(&request);
        for (int i = 0; rank == from && i < sent; i++)
            MPI_Pready(i, request);
        if (rank == to && round == 0 && received > 0)
            while (!flag)
                MPI_Parrived(request, received - 1, &flag);
        MPI_Wait(&request, &status);
    }
    MPI_Request_free(&request);
}

static void wrong_arguments(void)
{
    int data[2] = {0, 0};
    MPI_Request send, receive, other;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Psend_init(data, -1, 1, MPI_INT, 0, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Psend_init(data, 2, -1, MPI_INT, 0, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Psend_init(data, 2, 1, MPI_INT, 7, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(data, 2, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, MPI_INFO_NULL, &other)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(data, 2, 1, MPI_INT, 0, MPI_ANY_TAG, comm, MPI_INFO_NULL, &other)) == MPI_ERR_TAG);
    MPI_Psend_init(data, 2, 1, MPI_INT, 0, 1, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(data, 2, 1, MPI_INT, 0, 1, comm, MPI_INFO_NULL, &receive);
    CHECK(class_of(MPI_Pready(0, send)) == MPI_ERR_REQUEST);
    MPI_Start(&send);
    CHECK(class_of(MPI_Start(&send)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(2, send)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready(0, receive)) == MPI_ERR_REQUEST);
    MPI_Pready(0, send);
    CHECK(class_of(MPI_Pready(0, send)) == MPI_ERR_ARG);
    MPI_Pready(1, send);
    MPI_Start(&receive);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank < 2) {
        cut(rank, rank, 60, 4, 3);
        /* MPICH 5.0.2 crashes in the first. */
        if (is_tutti()) {
            nobody();
            none(rank, rank, 0, 0);
            none(rank, rank, 3, 0);
            none(rank, rank, 0, 3);
            wrong_arguments();
        }
    }
    if (size > 1 && rank < 2) {
        for (int from = 0; from < 2; from++) {
            cut(from, 1 - from, 60, 1, 1);
            cut(from, 1 - from, 60, 6, 4);
            cut(from, 1 - from, 60, 1, 60);
            cut(from, 1 - from, 60, 60, 1);
            cut(from, 1 - from, 300000, 5, 4);
        }
        slowly();
        one_by_one();
        many(30000, 30000, 1);
        many(3000, 20, 50);
        many(300, 7, 700);
        /* MPICH 5.0.2 sends nothing before all partitions are ready. */
        if (is_tutti()) {
            early(1);
            early(16384);
            /* The partitions of a checked program are messages inside a node, too: a sender that calls nothing sends as many of
             * them as there is room for, and those behind them with its next call. */
            if (getenv("TUTTI_CHECK") == NULL) {
                while_computing(0);
                while_computing(0.03);
            }
            none(0, 1, 0, 0);
            none(1, 0, 0, 2);
            none(0, 1, 2, 0);
        }
        in_order();
        with_gaps();
        into_gaps();
    }
    return finish("partitioned");
}
