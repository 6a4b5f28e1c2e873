/* Signals: functions of a receiver that computes; order, answers, refusals, and the end of one. */
#include "check.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

enum { ROUNDS = 400, LONGEST = 3000, RANKS_MAX = 16 };
static int n;
static char large[1 << 20];
static atomic_int inside;

struct message {
    int number;
    unsigned char rest[LONGEST];
};
static tutti_region answers[RANKS_MAX], counters[RANKS_MAX];
static int expected[RANKS_MAX];
static _Atomic long taken;
static atomic_int is_held, has_begun;

static size_t length_of(int number) { return sizeof(int) + (size_t)(number * 37 % LONGEST); }

/* Checks one of a sender's messages and counts it in the sender's memory. */
static void count(const void *data, size_t bytes, int from, void *context)
{
    CHECK(inside++ == 0 && context == &taken);
    struct message message;
    memcpy(&message, data, bytes);
    CHECK(from >= 0 && from < n && message.number == expected[from] && bytes == length_of(message.number));
    for (size_t at = sizeof(int); at < bytes; at++)
        CHECK(message.rest[at - sizeof(int)] == (unsigned char)(from + message.number));
    expected[from]++;
    int64_t before;
    CHECK(tutti_fetch_add(&answers[from], 0, 1, &before, TUTTI_WAIT) == TUTTI_OK);
    taken++;
    inside--;
}

static void hold(const void *data, size_t bytes, int from, void *context)
{
    (void)data, (void)bytes, (void)from;
    CHECK(tutti_close(context) == TUTTI_ERR_BUSY);
    has_begun = 1;
    while (is_held)
        ;
}

int main(int argc, char **argv)
{
    tutti_region counting, holding, own;
    CHECK(tutti_signal_open(8, count, NULL, &counting) == TUTTI_ERR_RUNNING);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    CHECK(n <= RANKS_MAX);
    CHECK(tutti_signal_open(8, NULL, NULL, &counting) == TUTTI_ERR_ARG);
    CHECK(tutti_signal_open(0, count, NULL, &counting) == TUTTI_ERR_ARG);
    int64_t *memory = tutti_alloc(8);
    CHECK(tutti_open(memory, 8, TUTTI_ATOMIC, &own) == TUTTI_OK);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, answers, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    CHECK(tutti_signal_open(4 * sizeof(struct message), count, &taken, &counting) == TUTTI_OK);
    MPI_Allgather(&counting, sizeof counting, MPI_BYTE, counters, sizeof counting, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);

    /* All start functions of all; nobody calls anything to receive. */
    struct message message;
    for (message.number = 0; message.number < ROUNDS; message.number++) {
        memset(message.rest, me + message.number, LONGEST);
        for (int to = 0; to < n; to++) {
            int status;
            while ((status = tutti_put(&counters[to], &message, length_of(message.number), TUTTI_WAIT)) == TUTTI_ERR_FULL)
                ;
            CHECK(status == TUTTI_OK);
        }
    }
    while (taken < (long)ROUNDS * n) /* computes */
        ;
    CHECK(tutti_wait_until(memory, TUTTI_EQ, (int64_t)ROUNDS * n, TUTTI_ANY) == TUTTI_OK);
    CHECK(tutti_put(&counters[(me + 1) % n], large, sizeof large, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    size_t bytes = 8;
    int from;
    CHECK(tutti_take(&counting, memory, &bytes, &from, 0) == TUTTI_ERR_RIGHT);

    /* A function that takes long: its queue fills up, and others are refused. */
    is_held = 1;
    CHECK(tutti_signal_open(64, hold, &holding, &holding) == TUTTI_OK);
    CHECK(tutti_put(&holding, "x", 1, TUTTI_WAIT) == TUTTI_OK);
    while (!has_begun) /* The thread takes what it gives to the function; from here on nothing more. */
        ;
    int sent = 0;
    while (tutti_put(&holding, "x", 1, TUTTI_WAIT) == TUTTI_OK)
        sent++;
    CHECK(sent >= 1 && tutti_put(&holding, "x", 1, TUTTI_WAIT) == TUTTI_ERR_FULL);
    is_held = 0;
    CHECK(tutti_close(&holding) == TUTTI_OK && tutti_close(&holding) == TUTTI_ERR_REGION);
    CHECK(tutti_put(&holding, "x", 1, TUTTI_WAIT) == TUTTI_ERR_REGION);

    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tutti_close(&counting) == TUTTI_OK);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tutti_put(&counters[(me + 1) % n], &message, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);
    CHECK(taken == (long)ROUNDS * n);
    int sum = failures;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && sum == 0)
        printf("signals: ok\n");
    MPI_Finalize();
    return sum != 0;
}
