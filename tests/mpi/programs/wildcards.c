/* Wildcards for source and tag (MPI 3.2.4): what they match, in which order, beside receives that name source and tag. Two ranks or
 * more; rank 0 receives from all. Sizes on every way that messages take. */
#include "check.h"

enum { EACH = 12, LARGEST = 200000 };

static const int sizes[] = {0, 4, 1000, 10000, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int rank, size;
static char data[EACH][LARGEST];

/* Number `i` of a rank's messages: its length, and the byte that it is full of. */
static int length(int from, int i)
{
    return sizes[(from + i) % SIZES];
}

static int is_whole(const char *at, int from, int i)
{
    for (int k = 0; k < length(from, i); k++)
        if (at[k] != (char)(16 * from + i))
            return 0;
    return 1;
}

/* All under way at once: rank 0 takes them in an order of its own. */
static void send_all(int tag_step)
{
    MPI_Request requests[EACH];
    for (int i = 0; i < EACH; i++) {
        memset(data[i], 16 * rank + i, LARGEST);
        MPI_Isend(data[i], length(rank, i), MPI_CHAR, 0, tag_step * i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(EACH, requests, MPI_STATUSES_IGNORE);
}

/* Any source, any tag: from each source everything, in the order in which it was sent. */
static void any_any(int probed)
{
    if (rank != 0) {
        send_all(3);
        return;
    }
    int *next = calloc((size_t)size, sizeof *next), count = -1;
    for (int n = 0; n < EACH * (size - 1); n++) {
        MPI_Status status;
        if (probed) {
            MPI_Status found;
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found);
            MPI_Recv(data[0], LARGEST, MPI_CHAR, found.MPI_SOURCE, found.MPI_TAG, MPI_COMM_WORLD, &status);
            CHECK(status.MPI_SOURCE == found.MPI_SOURCE && status.MPI_TAG == found.MPI_TAG);
        } else {
            MPI_Recv(data[0], LARGEST, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        }
        int from = status.MPI_SOURCE, i = next[from]++;
        MPI_Get_count(&status, MPI_CHAR, &count);
        CHECK(status.MPI_TAG == 3 * i && count == length(from, i) && is_whole(data[0], from, i));
    }
    free(next);
}

/* A tag from any source: those of other tags stay, and come out later in their order. */
static void any_source_of_a_tag(void)
{
    if (rank != 0) {
        send_all(1);
        return;
    }
    for (int i = EACH - 1; i >= 0; i--) {
        int seen = 0;
        for (int n = 1; n < size; n++) {
            MPI_Status status;
            MPI_Recv(data[0], LARGEST, MPI_CHAR, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &status);
            CHECK(status.MPI_TAG == i && is_whole(data[0], status.MPI_SOURCE, i));
            seen += status.MPI_SOURCE;
        }
        CHECK(seen == size * (size - 1) / 2);
    }
}

/* Any tag of a source: the oldest message first, posted before or after it comes. */
static void any_tag_of_a_source(void)
{
    if (rank != 0) {
        send_all(5);
        return;
    }
    for (int from = size - 1; from > 0; from--) {
        MPI_Request requests[EACH];
        MPI_Status statuses[EACH];
        for (int i = 0; i < EACH; i++)
            MPI_Irecv(data[i], LARGEST, MPI_CHAR, from, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(EACH, requests, statuses);
        for (int i = 0; i < EACH; i++)
            CHECK(statuses[i].MPI_SOURCE == from && statuses[i].MPI_TAG == 5 * i && is_whole(data[i], from, i));
    }
}

/* Of two receives that match, the one posted first gets the message, wildcard or not. */
static void posted_first_wins(void)
{
    int values[4] = {-1, -1, -1, -1};
    MPI_Request requests[4];
    MPI_Status statuses[4];
    if (rank == 0) {
        MPI_Irecv(&values[0], 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&values[1], 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(&values[2], 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]);
        MPI_Irecv(&values[3], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3]);
        MPI_Send(NULL, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        MPI_Waitall(4, requests, statuses);
        for (int i = 0; i < 4; i++)
            CHECK(values[i] == 100 + i && statuses[i].MPI_SOURCE == 1);
        CHECK(statuses[3].MPI_TAG == 8 && statuses[2].MPI_TAG == 7);
    } else if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 4; i++)
            MPI_Send(&(int){100 + i}, 1, MPI_INT, 0, i < 3 ? 7 : 8, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void (*const parts[])(void) = {any_source_of_a_tag, any_tag_of_a_source, posted_first_wins};
    for (int probed = 0; probed < 2; probed++) {
        any_any(probed);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        parts[i]();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return finish("wildcards");
}
