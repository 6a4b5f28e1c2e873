/* terminated KIND [STATUS]: a message-driven program is told when nothing can come any more (tutti_on_termination).
 *
 * queue: tasks start tasks at ranks that chance chooses, in queues; nobody counts them. Twice, with all ranks told each time.
 * receive: the same with receives from any rank, and functions that send to their own rank (MPI_THREAD_MULTIPLE).
 * busy: as queue, and rank 0 computes for a while before it starts anything.
 * nothing: the function does nothing, and the ranks wait on.
 * certain: rank 0 waits for a message of a certain rank, the last one.
 * half: odd ranks give no function.
 * withdrawn: all ranks give a function and take it back.
 * The job ends with STATUS. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>
#include <unistd.h>

enum { RANKS_MAX = 16, DEPTH = 7, TAG = 5, STOP = -1 };
static int n, by_receives, rounds_left;
static atomic_int calls;
static tutti_region queues[RANKS_MAX];
static unsigned long random_state;

static void give(int to, int depth) {
    if (by_receives) {
        MPI_Send(&depth, 1, MPI_INT, to, TAG, MPI_COMM_WORLD);
        return;
    }
    int status;
    while ((status = tutti_put(&queues[to], &depth, sizeof depth, TUTTI_WAIT)) == TUTTI_ERR_FULL)
        usleep(100);
    CHECK(status == TUTTI_OK);
}

static int next(void) {
    int depth = 0, from;
    size_t bytes = sizeof depth;
    if (by_receives)
        MPI_Recv(&depth, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        CHECK(tutti_take(&queues[me], &depth, &bytes, &from, 1) == TUTTI_OK);
    return depth;
}

static void over(void *context) {
    CHECK(context == &calls);
    calls++;
    if (--rounds_left > 0)
        CHECK(tutti_on_termination(over, context) == TUTTI_OK);
    give(me, STOP);
}

static void in_vain(void *context) {
    CHECK(context == &calls);
    calls++;
    printf("terminated: told\n");
    fflush(stdout);
}

static int anyone(void) {
    random_state = random_state * 6364136223846793005UL + 1442695040888963407UL;
    return (int)(random_state >> 40) % n;
}

/* All tasks of a round: their number, here. */
static long work(void) {
    long tasks = 0;
    for (int depth; (depth = next()) != STOP; tasks++)
        for (int child = 0; depth > 0 && child < 2; child++)
            give(anyone(), depth - 1);
    return tasks;
}

static void rounds(void) {
    for (int round = 1; round <= 2; round++) {
        if (me == 0)
            give(anyone(), DEPTH);
        long tasks = work(), all;
        CHECK(calls == round);
        MPI_Allreduce(&tasks, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all == (1 << (DEPTH + 1)) - 1);
    }
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "queue";
    int provided, word = 0;
    CHECK(tutti_on_termination(over, NULL) == TUTTI_ERR_RUNNING);
    by_receives = !strcmp(kind, "receive");
    MPI_Init_thread(&argc, &argv, by_receives ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    CHECK(n <= RANKS_MAX && (!by_receives || provided == MPI_THREAD_MULTIPLE));
    random_state = (unsigned long)me + 1;
    tutti_region own;
    CHECK(tutti_queue_open(1 << 14, &own) == TUTTI_OK);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, queues, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    int gives_up = !strcmp(kind, "nothing") || !strcmp(kind, "certain") || !strcmp(kind, "half") || !strcmp(kind, "withdrawn");
    rounds_left = 2;
    if (strcmp(kind, "half") || me % 2 == 0)
        CHECK(tutti_on_termination(gives_up ? in_vain : over, &calls) == TUTTI_OK);
    if (!strcmp(kind, "withdrawn"))
        CHECK(tutti_on_termination(NULL, NULL) == TUTTI_OK);
    if (!strcmp(kind, "busy") && me == 0) {
        /* Longer than the search takes that finds all others waiting. */
        usleep(2500 * 1000);
        CHECK(calls == 0);
    }
    if (!strcmp(kind, "certain") && me == 0)
        MPI_Recv(&word, 1, MPI_INT, n - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (gives_up)
        next();
    else
        rounds();
    int all, sum = failures;
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && all == 0)
        printf("terminated: ok\n");
    MPI_Finalize();
    return all ? 1 : argc > 2 ? atoi(argv[2]) : 0;
}
