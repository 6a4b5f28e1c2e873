/* MPI 5.1: messages with one type on the sending side and another on the receiving one, from a few bytes to some megabytes, so that
 * every way of moving data is taken; elements counted; types freed while operations are pending. Run on 2 ranks. */
#include "check.h"

enum { N = 700 };

static int rank;
static double matrix[N][N], copy[N][N], line[N * N];

static void fill(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            matrix[i][j] = i * N + j;
            copy[i][j] = -1;
        }
    for (int i = 0; i < N * N; i++)
        line[i] = -1;
}

/* A column of every length leaves, and arrives as a row, as a column, and as it is. */
static void columns(void)
{
    MPI_Datatype column;
    MPI_Request request;

    for (int n = 1; n <= N; n = n * 3 + 1) {
        MPI_Type_vector(n, 1, N, MPI_DOUBLE, &column);
        MPI_Type_commit(&column);
        fill();
        if (rank == 0) {
            MPI_Send(&matrix[0][3], 1, column, 1, 1, MPI_COMM_WORLD);
            MPI_Send(&matrix[0][3], 1, column, 1, 2, MPI_COMM_WORLD);
            MPI_Ssend(&matrix[0][4], n, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(line, n, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < N; i++)
                CHECK(line[i] == (i < n ? matrix[i][3] : -1));
            MPI_Irecv(&copy[0][5], 1, column, 0, 2, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Recv(&copy[0][9], 1, column, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++)
                    if (copy[i][j] != (i < n && j == 5 ? matrix[i][3] : i < n && j == 9 ? matrix[0][4 + i] : -1)) {
                        CHECK(!"the places of the column and nothing else");
                        return;
                    }
        }
        MPI_Type_free(&column);
    }
}

/* A whole matrix is transposed on the way: columns of columns against a contiguous block. */
static void transposed(void)
{
    MPI_Datatype column, spaced, all;
    MPI_Request request;

    fill();
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &spaced);
    MPI_Type_contiguous(N, spaced, &all);
    MPI_Type_commit(&all);
    MPI_Type_free(&spaced);
    MPI_Type_free(&column);
    if (rank == 0) {
        MPI_Isend(matrix, 1, all, 1, 7, MPI_COMM_WORLD, &request);
        MPI_Type_free(&all);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Irecv(line, N * N, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, &request);
        MPI_Type_free(&all);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < N * N; i++)
            if (line[i] != matrix[i % N][i / N]) {
                CHECK(!"the transposed matrix");
                return;
            }
    } else {
        MPI_Type_free(&all);
    }
}

/* Columns into columns, some of them or all; a block into columns, which ends in the middle of one; from a rank to itself. */
static void columns_of_a_matrix(void)
{
    MPI_Datatype column, spaced;
    MPI_Request request, sending;

    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Type_free(&column);
    for (int to = 0; to < 2; to++) {
        for (int n = 1; n <= N; n += 233) {
            int begun = n * N - N / 3;
            fill();
            if (rank == to) {
                MPI_Irecv(&copy[0][0], N, spaced, 0, 8, MPI_COMM_WORLD, &request);
            }
            if (rank == 0) {
                MPI_Isend(&matrix[0][0], n, spaced, to, 8, MPI_COMM_WORLD, &sending);
                MPI_Wait(&sending, MPI_STATUS_IGNORE);
            }
            if (rank == to) {
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                for (int i = 0; i < N * N; i++)
                    if (copy[i / N][i % N] != (i % N < n ? matrix[i / N][i % N] : -1)) {
                        CHECK(!"the columns and no others");
                        return;
                    }
                fill();
                MPI_Irecv(&copy[0][0], N, spaced, 0, 9, MPI_COMM_WORLD, &request);
            }
            if (rank == 0) {
                MPI_Isend(matrix, begun, MPI_DOUBLE, to, 9, MPI_COMM_WORLD, &sending);
                MPI_Wait(&sending, MPI_STATUS_IGNORE);
            }
            if (rank == to) {
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                for (int i = 0; i < N * N; i++) {
                    int place = i % N * N + i / N;
                    if (copy[i / N][i % N] != (place < begun ? matrix[place / N][place % N] : -1)) {
                        CHECK(!"the columns that have begun");
                        return;
                    }
                }
            }
        }
    }
    MPI_Type_free(&spaced);
}

struct particle {
    char kind;
    double place[3];
    short charge;
    int neighbours[2];
};

static void particles(void)
{
    enum { COUNT = 5000 };
    static struct particle sent[COUNT], received[COUNT];
    struct particle *p = sent;
    int lengths[4] = {1, 3, 1, 2};
    MPI_Aint places[4], base;
    MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT}, type, particle;
    MPI_Status status;
    int count, elements;

    MPI_Get_address(p, &base);
    MPI_Get_address(&p->kind, &places[0]);
    MPI_Get_address(p->place, &places[1]);
    MPI_Get_address(&p->charge, &places[2]);
    MPI_Get_address(p->neighbours, &places[3]);
    for (int i = 0; i < 4; i++)
        places[i] = MPI_Aint_diff(places[i], base);
    MPI_Type_create_struct(4, lengths, places, types, &type);
    MPI_Type_create_resized(type, 0, sizeof(struct particle), &particle);
    MPI_Type_commit(&particle);
    MPI_Type_free(&type);
    for (int n = 1; n <= COUNT; n = n * 7 + 1) {
        memset(received, 0, sizeof received);
        for (int i = 0; i < n; i++)
            sent[i] = (struct particle){(char)i, {i, i + .25, i + .5}, (short)(i * 3), {i * 5, i * 7}};
        if (rank == 0) {
            MPI_Send(sent, n, particle, 1, 4, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(received, COUNT, particle, 0, 4, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, particle, &count);
            MPI_Get_elements(&status, particle, &elements);
            CHECK(count == n && elements == 7 * n);
            for (int i = 0; i < n; i++) {
                struct particle *a = &sent[i], *b = &received[i];
                CHECK(a->kind == b->kind && a->place[2] == b->place[2] && a->charge == b->charge);
                CHECK(a->place[0] == b->place[0] && a->neighbours[1] == b->neighbours[1]);
            }
            CHECK(n == COUNT || received[n].neighbours[1] == 0);
        }
    }
    MPI_Type_free(&particle);
}

/* A message may end inside an element of the receiver's type. */
static void partial(void)
{
    int lengths[2] = {1, 2}, numbers[5] = {1, 2, 3, 4, 5}, count;
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, type;
    MPI_Count large;
    MPI_Status status;
    int got[8] = {0};

    MPI_Type_create_struct(2, lengths, places, types, &type);
    MPI_Type_commit(&type);
    for (int n = 0; n <= 5; n++) {
        if (rank == 0) {
            MPI_Send(numbers, n, MPI_INT, 1, 5, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Recv(got, 2, type, 0, 5, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, type, &count);
            CHECK(count == (n % 3 == 0 ? n / 3 : MPI_UNDEFINED));
            MPI_Get_elements(&status, type, &count);
            CHECK(count == n);
            MPI_Get_elements_x(&status, type, &large);
            CHECK(large == n);
            MPI_Get_elements_c(&status, type, &large);
            CHECK(large == n);
        }
    }
    if (rank == 1) {
        CHECK(got[0] == 1 && got[2] == 2 && got[3] == 3 && got[4] == 4 && got[6] == 5 && got[1] == 0 && got[5] == 0);
        MPI_Status_set_elements(&status, type, 7);
        MPI_Get_elements(&status, type, &count);
        CHECK(count == 7);
        MPI_Get_count(&status, type, &count);
        CHECK(count == MPI_UNDEFINED);
        MPI_Status_set_elements_c(&status, type, 6);
        MPI_Get_count(&status, type, &count);
        CHECK(count == 2);
    }
    MPI_Type_free(&type);
}

/* Absolute addresses from MPI_BOTTOM, data that lie below their address, pairs, nothing at all. */
static void special(void)
{
    int numbers[10], got[10], length = 4, count;
    MPI_Aint address;
    MPI_Datatype type, backwards, nothing;
    struct {
        double value;
        int index;
    } pairs[3] = {{1, 2}, {3, 4}, {5, 6}}, back[3];
    MPI_Status status;

    for (int i = 0; i < 10; i++) {
        numbers[i] = i;
        got[i] = -1;
    }
    MPI_Get_address(rank == 0 ? numbers + 2 : got + 1, &address);
    MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_vector(4, 1, -2, MPI_INT, &backwards);
    MPI_Type_commit(&backwards);
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    if (rank == 0) {
        MPI_Send(MPI_BOTTOM, 1, type, 1, 6, MPI_COMM_WORLD);
        MPI_Send(numbers + 9, 1, backwards, 1, 7, MPI_COMM_WORLD);
        MPI_Send(pairs, 3, MPI_DOUBLE_INT, 1, 8, MPI_COMM_WORLD);
        MPI_Send(NULL, 5, nothing, 1, 9, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(MPI_BOTTOM, 1, type, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got[0] == -1 && got[1] == 2 && got[4] == 5 && got[5] == -1);
        MPI_Recv(got, 4, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got[0] == 9 && got[1] == 7 && got[2] == 5 && got[3] == 3);
        MPI_Recv(back, 3, MPI_DOUBLE_INT, 0, 8, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_DOUBLE_INT, &count);
        CHECK(count == 3 && back[2].value == 5 && back[2].index == 6 && back[0].index == 2);
        MPI_Get_elements(&status, MPI_DOUBLE_INT, &count);
        CHECK(count == 6);
        MPI_Recv(NULL, 5, nothing, 0, 9, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, nothing, &count);
        CHECK(count == 0);
    }
    MPI_Type_free(&type);
    MPI_Type_free(&backwards);
    MPI_Type_free(&nothing);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    columns();
    transposed();
    columns_of_a_matrix();
    particles();
    partial();
    special();
    return finish("types_transfer");
}
