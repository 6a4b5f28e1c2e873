/*
 * The native interface between two ranks: an acknowledged write, a message for a queue, and a signal, of several sizes.
 * Both ranks are on one machine (one node, or two network namespaces), so their clocks are one.
 *
 *   mpiexec -n 2 native [--budget-ms MS]          mpiexec --netns 2 -n 2 native
 *
 * done_ns: from the call of the sender to its return, when the receiver has acknowledged. there_ns: from the call to the
 * moment at which the receiver has it: tutti_take returns the message, the function of the signal begins.
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

int main(int argc, char **argv) {
    static const size_t sizes[] = {8, 16, 64, 256, 1024, 1408, 4096, 65536, 1 << 20};
    double budget_ns = 200e6;
    int rank, ranks, provided;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--budget-ms") == 0) {
            budget_ns = atof(argv[i + 1]) * 1e6;
        }
    }
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
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
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
