/* All ways to place N queens on a board of N x N so that none attacks another. A message-driven program: a task is a board with
 * its first rows filled; each rank takes tasks out of its queue and puts the boards with one row more into the queues of others.
 * Nobody counts tasks, so no rank can know when the last one is done: Tutti says so (tutti_on_termination).
 * Usage: mpiexec -n 4 queens [N], linked with -ltutti */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti.h>

enum { RANKS_MAX = 256, SPREAD_ROWS = 3, QUEUE_BYTES = 1 << 16 };

/* Squares of the next row that are attacked: by columns, and by both diagonals. */
struct task {
    int row; /* -1: there are no more tasks */
    unsigned columns, left, right;
};

static int me, ranks, size;
static tutti_region queues[RANKS_MAX];

static const long known[] = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712};

/* Runs once the job has terminated, in a thread of the library: the main thread waits for its queue. */
static void terminated(void *unused)
{
    (void)unused;
    struct task last = {.row = -1};
    tutti_put(&queues[me], &last, sizeof last, TUTTI_WAIT);
}

static struct task with(struct task task, unsigned square)
{
    return (struct task){task.row + 1, task.columns | square, (task.left | square) << 1, (task.right | square) >> 1};
}

static long solve(struct task task)
{
    if (task.row == size)
        return 1;
    long ways = 0;
    unsigned all = (1u << size) - 1;
    for (unsigned free = all & ~(task.columns | task.left | task.right); free; free &= free - 1)
        ways += solve(with(task, free & -free));
    return ways;
}

/* Does a task: hands its parts to others, or solves it. A part that has no room there is solved here. */
static long work(struct task task)
{
    if (task.row >= SPREAD_ROWS || task.row >= size)
        return solve(task);
    long ways = 0;
    unsigned all = (1u << size) - 1;
    for (unsigned free = all & ~(task.columns | task.left | task.right); free; free &= free - 1) {
        struct task part = with(task, free & -free);
        if (tutti_put(&queues[rand() % ranks], &part, sizeof part, TUTTI_WAIT) != TUTTI_OK)
            ways += solve(part);
    }
    return ways;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size = argc > 1 ? atoi(argv[1]) : 10;
    if (size < 1 || size > 13 || ranks > RANKS_MAX) {
        if (me == 0)
            fprintf(stderr, "usage: queens [N 1..13], with at most %d ranks\n", RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    srand((unsigned)me + 1);
    tutti_region own;
    int status = tutti_queue_open(QUEUE_BYTES, &own);
    if (status == TUTTI_OK)
        status = tutti_on_termination(terminated, NULL);
    if (status != TUTTI_OK) {
        fprintf(stderr, "queens: the queue or the function is not to be had (%d)\n", status);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Allgather(&own, sizeof own, MPI_BYTE, queues, sizeof own, MPI_BYTE, MPI_COMM_WORLD);

    if (me == 0) {
        struct task first = {0, 0, 0, 0};
        tutti_put(&queues[me], &first, sizeof first, TUTTI_WAIT);
    }
    long ways = 0, tasks = 0;
    for (;;) {
        struct task task;
        size_t bytes = sizeof task;
        int from;
        if (tutti_take(&own, &task, &bytes, &from, 1) != TUTTI_OK || task.row < 0)
            break;
        ways += work(task);
        tasks++;
    }

    long sums[2] = {ways, tasks}, all[2], most;
    MPI_Reduce(sums, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&tasks, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    int wrong = me == 0 && all[0] != known[size];
    if (me == 0)
        printf("queens: %ld ways on %d x %d, %ld tasks, %d ranks, at most %ld a rank: %s\n", all[0], size, size, all[1], ranks,
               most, wrong ? "WRONG" : "verified");
    MPI_Finalize();
    return wrong;
}
