/*
 * Instructions of single calls: no noise of the machine, and the same on each run.
 *
 *   instructions [--calls 40]
 *
 * Rank 0 is stepped through each call by a child of its own (ptrace), which counts; a call of the kernel counts as one.
 * Rank 1 does its part before or after, at full speed, as two words in shared memory say: so that the counted call finds
 * all that it waits for. The figure is the median, less that of an empty section.
 *
 * Two ranks on one node. Needs the right to trace an own process.
 */
#include "bench.h"
#include "traced.h"
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CALLS_MAX = 1000, WARM_UP = 100, TAG = 7 };

/* What the ranks share. Writer of `wanted`: rank 0; of `done`: rank 1. */
struct turns {
    atomic_int wanted, done;
};

static struct turns *turns;

static int turn;

/* Rank 0: lets rank 1 do its next part. */
static void let(void) {
    atomic_store(&turns->wanted, ++turn);
}

/* Rank 0: waits until rank 1 has done it. */
static void await(void) {
    while (atomic_load(&turns->done) != turn) {
        usleep(20);
    }
}

/* Rank 1: waits until its next part is wanted. */
static void await_turn(void) {
    turn++;
    while (atomic_load(&turns->wanted) != turn) {
        usleep(20);
    }
}

/* Rank 1: has done it. */
static void end_turn(void) {
    atomic_store(&turns->done, turn);
}

static long value, sent = 42;
static MPI_Request request;
static MPI_Win window;
static long *memory;

static void nothing(void) {
    COUNTED((void)0);
}

static void send_posted(void) {
    let();
    await();
    COUNTED(MPI_Send(&sent, 1, MPI_LONG, 1, TAG, MPI_COMM_WORLD));
    let();
    await();
}

static void post_and_wait(void) {
    await_turn();
    MPI_Irecv(&value, 1, MPI_LONG, 0, TAG, MPI_COMM_WORLD, &request);
    end_turn();
    await_turn();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    end_turn();
}

static void isend_wait(void) {
    let();
    await();
    COUNTED(MPI_Isend(&sent, 1, MPI_LONG, 1, TAG, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE));
    let();
    await();
}

static MPI_Request persistent;

/* Its completion is not counted: Open MPI's waits for the receiver, which must be in MPI then. */
static void start_persistent(void) {
    let();
    await();
    COUNTED(MPI_Start(&persistent));
    let();
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    await();
}

static void receive_there(void) {
    let();
    await();
    COUNTED(MPI_Recv(&value, 1, MPI_LONG, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void send_one(void) {
    await_turn();
    MPI_Send(&sent, 1, MPI_LONG, 0, TAG, MPI_COMM_WORLD);
    end_turn();
}

static void start_receive(void) {
    COUNTED(MPI_Irecv(&value, 1, MPI_LONG, 1, TAG, MPI_COMM_WORLD, &request));
    let();
    await();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void complete_receive(void) {
    MPI_Irecv(&value, 1, MPI_LONG, 1, TAG, MPI_COMM_WORLD, &request);
    let();
    await();
    COUNTED(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Rank 1 says that it comes, and is there some microseconds later. */
static void meet_later(void) {
    let();
    await();
    usleep(1000);
}

static void allreduce_last(void) {
    meet_later();
    COUNTED(MPI_Allreduce(&sent, &value, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
}

static void allreduce(void) {
    await_turn();
    end_turn();
    MPI_Allreduce(&sent, &value, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier_last(void) {
    meet_later();
    COUNTED(MPI_Barrier(MPI_COMM_WORLD));
}

static void barrier(void) {
    await_turn();
    end_turn();
    MPI_Barrier(MPI_COMM_WORLD);
}

static void put_flush(void) {
    COUNTED(MPI_Put(&sent, 1, MPI_LONG, 1, 0, 1, MPI_LONG, window); MPI_Win_flush(1, window));
}

static void fetch_flush(void) {
    COUNTED(MPI_Fetch_and_op(&sent, &value, MPI_LONG, 1, 0, MPI_SUM, window); MPI_Win_flush(1, window));
}

/* One message of so many partitions of 8 bytes, each way; the next one of both. */
enum { PARTITIONS = CALLS_MAX + WARM_UP };
static long out[PARTITIONS], in[PARTITIONS];
static MPI_Request outward, inward;
static int next_out, next_in, flag;

/* Ready in order, one by one; the receiver takes each before the next. */
static void pready(void) {
    COUNTED(MPI_Pready(next_out++, outward));
    let();
    await();
}

static void take_partition(void) {
    await_turn();
    MPI_Parrived(inward, next_in++, &flag);
    end_turn();
}

static void parrived_there(void) {
    let();
    await();
    COUNTED(MPI_Parrived(inward, next_in++, &flag));
}

static void send_partition(void) {
    await_turn();
    MPI_Pready(next_out++, outward);
    end_turn();
}

/* A call by its name: what rank 0 and rank 1 do for it. */
struct call {
    const char *name;
    void (*counted)(void);
    void (*partner)(void);
};

static const struct call ALL[] = {
    {"nothing", nothing, NULL},
    {"send", send_posted, post_and_wait},
    {"isend_wait", isend_wait, post_and_wait},
    {"start", start_persistent, post_and_wait},
    {"recv", receive_there, send_one},
    {"irecv", start_receive, send_one},
    {"wait", complete_receive, send_one},
    {"allreduce", allreduce_last, allreduce},
    {"barrier", barrier_last, barrier},
    {"put_flush", put_flush, NULL},
    {"fetch_and_op_flush", fetch_flush, NULL},
    {"pready", pready, take_partition},
    {"parrived", parrived_there, send_partition},
};

static void fail(const char *what) {
    fprintf(stderr, "instructions: %s: %s\n", what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Memory that both ranks see; its file is gone at once. */
static void share(int rank) {
    char name[] = "/dev/shm/instructions-XXXXXX";
    int file = -1;
    if (rank == 0 && ((file = mkstemp(name)) < 0 || ftruncate(file, sizeof *turns) != 0)) {
        fail(name);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank != 0 && (file = open(name, O_RDWR)) < 0) {
        fail(name);
    }
    turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (turns == MAP_FAILED) {
        fail("mmap");
    }
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        unlink(name);
    }
}

int main(int argc, char **argv) {
    int rank, ranks;
    pid_t tracer = start_tracer();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int calls = (int)option_number(argc, argv, "--calls", 40);
    if (tracer < 0 || ranks != 2 || calls < 1 || calls > CALLS_MAX) {
        fprintf(stderr, "instructions: needs 2 ranks and 1 to %d calls\n", CALLS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    share(rank);
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(0, window);
    MPI_Psend_init(out, PARTITIONS, 1, MPI_LONG, 1 - rank, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &outward);
    MPI_Precv_init(in, PARTITIONS, 1, MPI_LONG, 1 - rank, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &inward);
    MPI_Start(&outward);
    MPI_Start(&inward);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send_init(&sent, 1, MPI_LONG, 1, TAG, MPI_COMM_WORLD, &persistent);
        if (!be_traced(tracer)) {
            fprintf(stderr, "instructions: this process may not be traced\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    } else {
        need_no_tracer();
    }
    double empty = 0;
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        const struct call *call = &ALL[i];
        struct samples samples = samples_new();
        /* The first ones find nothing prepared: buffers, connections, pages, what a sender knows of its receiver. */
        for (int n = 0; n < calls + WARM_UP; n++) {
            if (rank == 0) {
                call->counted();
                if (n >= WARM_UP) {
                    samples_add(&samples, (double)traced->count);
                }
            } else if (call->partner != NULL) {
                call->partner();
            }
        }
        if (rank == 0) {
            double median = samples_quantile(&samples, 0.5);
            if (call->counted == nothing) {
                empty = median;
            } else {
                printf("instructions call=%s median_ins=%.0f p99_ins=%.0f n=%zu\n", call->name, median - empty,
                       samples_quantile(&samples, 0.99) - empty, samples.count);
            }
        }
        free(samples.ns);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* What was not ready yet: both messages are to end. */
    if (next_out < PARTITIONS) {
        MPI_Pready_range(next_out, PARTITIONS - 1, outward);
    }
    MPI_Wait(&outward, MPI_STATUS_IGNORE);
    MPI_Wait(&inward, MPI_STATUS_IGNORE);
    MPI_Request_free(&outward);
    MPI_Request_free(&inward);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    if (rank == 0) {
        MPI_Request_free(&persistent);
    }
    MPI_Finalize();
    return 0;
}
