/*
 * The native interface between two ranks: an acknowledged write, a message for a queue, and a signal, of several sizes.
 * Both ranks are on one machine (one node, or two network namespaces), so their clocks are one.
 *
 *   mpiexec -n 2 native [--budget-ms MS] [--stream]          mpiexec --netns 2 -n 2 native
 *
 * done_ns: from the call of the sender to its return, when the receiver has acknowledged. there_ns: from the call to the
 * moment at which the receiver has it: tutti_take returns the message, the function of the signal begins.
 * --stream  writes, and messages for the queue, one after the other, and one fence behind them.
 */
#include "bench.h"

#include <mpi.h>
#include <tutti.h>

enum { LONGEST = 1 << 20, BACK = 64 };

/* What the receiver has seen, and when. */
static struct samples seen;
static volatile size_t signals;

static void check(int status, const char *what) {
    if (status != TUTTI_OK) {
        fprintf(stderr, "native: %s: status %d\n", what, status);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void note(const void *data) {
    double sent;
    memcpy(&sent, data, sizeof sent);
    samples_add(&seen, now_ns() - sent);
}

static void on_signal(const void *data, size_t bytes, int from, void *context) {
    (void)bytes, (void)from, (void)context;
    note(data);
    signals++;
}

/* One way to give `bytes` bytes to the other rank, again and again; the receiver is in `receive` meanwhile. */
static void measure(const char *op, const tutti_region *there, size_t bytes, double budget_ns, int rank, char *data) {
    struct samples done = samples_new();
    long more = 1;
    size_t room = LONGEST, answered = signals, signalled = strcmp(op, "signal") == 0;
    double begin = now_ns();
    seen.count = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        while (done.count < 64 || (done.count < MAX_BATCHES && now_ns() - begin < budget_ns)) {
            double sent = now_ns();
            memcpy(data, &sent, sizeof sent);
            int status = strcmp(op, "write") == 0 ? tutti_write(there, 0, data, bytes, TUTTI_WAIT)
                                                  : tutti_put(there, data, bytes, TUTTI_WAIT);
            if (status == TUTTI_ERR_FULL) {
                continue;
            }
            check(status, op);
            samples_add(&done, now_ns() - sent);
            /* The receiver goes on before the next one comes. */
            MPI_Send(&more, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&more, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        more = 0;
        MPI_Send(&more, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
    }
    while (rank == 1) {
        if (strcmp(op, "queue") == 0) {
            /* A message, or the word that there is no more. */
            int there_is = 0, from;
            while (!there_is) {
                room = LONGEST;
                int status = tutti_take(there, data, &room, &from, 0);
                if (status == TUTTI_OK) {
                    note(data);
                    break;
                }
                if (status != TUTTI_EMPTY) {
                    check(status, "take");
                }
                MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there_is, MPI_STATUS_IGNORE);
            }
        }
        MPI_Recv(&more, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (more == 0) {
            break;
        }
        for (answered += signalled; signals < answered;) {
        }
        MPI_Send(&more, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    struct samples *mine = rank == 0 ? &done : &seen;
    if (rank == 0 || strcmp(op, "write") != 0) {
        printf("native op=%s bytes=%zu %s_ns=%.0f p99_ns=%.0f n=%zu\n", op, bytes, rank == 0 ? "done" : "there",
               samples_quantile(mine, 0.5), samples_quantile(mine, 0.99), mine->count);
        fflush(stdout);
    }
    free(done.ns);
}

/* Takes so many messages from the queue. */
static void take_all(const tutti_region *queue, char *data, int messages) {
    for (int taken = 0; taken < messages; taken++) {
        size_t room = LONGEST;
        int from;
        check(tutti_take(queue, data, &room, &from, 1), "take");
    }
}

/* So many operations of a kind, and a fence: again and again. */
static void stream(const char *op, const tutti_region *there, size_t bytes, double budget_ns, int rank, char *data) {
    enum { MESSAGES = 2000, LEAST = 3 };
    struct samples rates = samples_new();
    double begin = now_ns();
    int is_queue = strcmp(op, "queue") == 0, more = 1;
    while (more) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        for (int i = 0; rank == 0 && i < MESSAGES;) {
            int status = is_queue ? tutti_put(there, data, bytes, TUTTI_POSTED)
                                  : tutti_write(there, i * bytes % (LONGEST - bytes), data, bytes, TUTTI_POSTED);
            if (status != TUTTI_ERR_FULL) {
                check(status, op);
                i++;
            }
        }
        if (rank == 0) {
            tutti_fence fence;
            check(tutti_fence_start(&fence), "fence");
            check(tutti_fence_wait(&fence), "fence");
        } else if (is_queue) {
            take_all(there, data, MESSAGES);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        samples_add(&rates, (double)(MESSAGES * bytes) / (now_ns() - start));
        more = rates.count < LEAST || (rates.count < MAX_BATCHES && now_ns() - begin < budget_ns);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        printf("native stream=%s bytes=%zu median_gbs=%.5f n=%zu\n", op, bytes, samples_quantile(&rates, 0.5),
               rates.count);
        fflush(stdout);
    }
    free(rates.ns);
}

int main(int argc, char **argv) {
    static const size_t streamed[] = {4, 16, 64, 256, 1024, 1408};
    static const size_t sizes[] = {8, 16, 64, 256, 1024, 1408, 4096, 65536, 1 << 20};
    double budget_ns;
    int rank, ranks, provided;

    budget_ns = option_number(argc, argv, "--budget-ms", 200) * 1e6;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "native: expected 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *data = calloc(1, LONGEST), *memory = tutti_alloc(LONGEST);
    tutti_region own[3] = {{{0}}}, there[3];
    seen = samples_new();
    if (rank == 1) {
        check(tutti_open(memory, LONGEST, TUTTI_WRITE, &own[0]), "open");
        check(tutti_queue_open(LONGEST + BACK, &own[1]), "queue");
        check(tutti_signal_open(LONGEST + BACK, on_signal, NULL, &own[2]), "signal");
    }
    memcpy(there, own, sizeof own);
    MPI_Bcast(there, sizeof there, MPI_BYTE, 1, MPI_COMM_WORLD);
    static const char *const ops[] = {"write", "queue", "signal"};
    int is_stream = option(argc, argv, "--stream");
    for (size_t size = 0; is_stream && size < sizeof streamed / sizeof streamed[0]; size++) {
        for (int op = 0; op < 2; op++) {
            stream(ops[op], &there[op], streamed[size], budget_ns, rank, data);
        }
    }
    for (size_t size = 0; !is_stream && size < sizeof sizes / sizeof sizes[0]; size++) {
        for (int op = 0; op < 3; op++) {
            measure(ops[op], &there[op], sizes[size], budget_ns, rank, data);
        }
    }
    if (rank == 1) {
        for (int op = 0; op < 3; op++) {
            check(tutti_close(&own[op]), "close");
        }
    }
    check(tutti_free(memory), "free");
    free(data);
    free(seen.ns);
    MPI_Finalize();
    return 0;
}
