/*
 * Round trip between ranks 0 and 1: rank 0 sends, rank 1 answers with as many bytes.
 *
 *   rtt [--sizes 0,4,...] [--any-source] [--rotate] [--idle recv|sleep] [--budget-ms 100]
 *
 * --any-source  both receive from MPI_ANY_SOURCE
 * --rotate      buffers rotate through 64 MiB on each side, so that data are never in a cache
 * --idle        what further ranks do meanwhile: wait in MPI_Recv (default), or sleep outside of MPI
 */
#include "bench.h"
#include <mpi.h>

enum { TAG_PLAN = 1, TAG_DATA = 2, TAG_END = 3, MAX_SIZES = 32 };

static const size_t ROTATE_BYTES = 64u << 20;

struct side {
    int rank, peer, from;
    size_t bytes, stride, room;
    size_t at;
    unsigned char *out, *in;
};

/* Buffers for the next message: the same again, or the next ones of the rotation. */
static void next_buffers(struct side *s, unsigned char **out, unsigned char **in) {
    *out = s->out + s->at;
    *in = s->in + s->at;
    s->at += s->stride;
    if (s->at + s->bytes > s->room) {
        s->at = 0;
    }
}

static void round_trips(struct side *s, int count) {
    unsigned char *out, *in;
    for (int i = 0; i < count; i++) {
        next_buffers(s, &out, &in);
        if (s->rank == 0) {
            MPI_Send(out, (int)s->bytes, MPI_BYTE, s->peer, TAG_DATA, MPI_COMM_WORLD);
            MPI_Recv(in, (int)s->bytes, MPI_BYTE, s->from, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, (int)s->bytes, MPI_BYTE, s->from, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, (int)s->bytes, MPI_BYTE, s->peer, TAG_DATA, MPI_COMM_WORLD);
        }
    }
}

/* What rank 0 says holds for both. */
static int both(struct side *s, int value) {
    if (s->rank == 0) {
        MPI_Send(&value, 1, MPI_INT, s->peer, TAG_PLAN, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&value, 1, MPI_INT, s->peer, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return value;
}

/* Rank 0 times some round trips and tells rank 1 how many there will be; `warm` of them are run by both first. */
static struct plan agree(struct side *s, double budget_ms) {
    double one_ns = 0;
    int more = 1;
    for (int warm = 1; more && warm <= 1000; warm *= 10) {
        double start = now_ns();
        round_trips(s, warm);
        one_ns = (now_ns() - start) / warm;
        /* Rank 0 alone decides whether the next, longer trial is worth its time. */
        more = both(s, one_ns * warm * 10 < budget_ms * 1e6 / 2);
    }
    struct plan p = plan_for(one_ns, budget_ms);
    p.per_batch = both(s, p.per_batch);
    p.batches = both(s, p.batches);
    return p;
}

/* What arrives must be what was sent; checked outside of the timing. */
static void check_data(struct side *s) {
    unsigned char *out, *in;
    size_t before = s->at;
    next_buffers(s, &out, &in);
    s->at = before;
    pattern_fill(out, s->bytes, (unsigned)s->rank + 1);
    memset(in, 0xee, s->bytes);
    round_trips(s, 1);
    if (!pattern_holds(in, s->bytes, (unsigned)s->peer + 1)) {
        fprintf(stderr, "rtt: rank %d: wrong data in a message of %zu bytes\n", s->rank, s->bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void measure(int rank, size_t bytes, int any_source, int rotate, double budget_ms, int ranks,
                    const char *idle) {
    struct side s = {rank, 1 - rank, any_source ? MPI_ANY_SOURCE : 1 - rank, bytes, 0, bytes, 0, NULL, NULL};
    struct samples samples = samples_new();
    if (rotate && bytes > 0) {
        s.room = ROTATE_BYTES;
        s.stride = (bytes + 4095) / 4096 * 4096;
    }
    s.out = touched(s.room);
    s.in = touched(s.room);
    check_data(&s);
    struct plan plan = agree(&s, budget_ms);
    double whole = now_ns();
    for (int done = 0, more = 1; more && done < plan.batches; done += part_batches(&plan)) {
        for (int i = 0; i < part_batches(&plan); i++) {
            double start = now_ns();
            round_trips(&s, plan.per_batch);
            samples_add(&samples, (now_ns() - start) / plan.per_batch);
        }
        more = both(&s, another_part(whole, budget_ms));
    }
    if (rank == 0) {
        double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        printf("rtt bytes=%zu any_source=%d rotate=%d ranks=%d idle=%s median_ns=%.1f p99_ns=%.1f n=%zu\n", bytes,
               any_source, rotate, ranks, idle, median, p99, samples.count);
        fflush(stdout);
    }
    free(samples.ns);
    free(s.out);
    free(s.in);
}

/* A rank beyond the first two: in MPI_Recv until the end, or asleep and looking 100 times a second. */
static void be_idle(const char *idle) {
    int arrived = strcmp(idle, "sleep") != 0;
    while (!arrived) {
        struct timespec pause = {0, 10000000};
        nanosleep(&pause, NULL);
        MPI_Iprobe(0, TAG_END, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank, ranks;
    size_t sizes[MAX_SIZES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *idle = option_text(argc, argv, "--idle");
    double budget_ms = option_number(argc, argv, "--budget-ms", 100);
    int any_source = option(argc, argv, "--any-source"), rotate = option(argc, argv, "--rotate");
    int count = option_sizes(argc, argv, "0,4,64,256,1024,4096,16384,65536,262144,1048576,4194304", sizes, MAX_SIZES);
    if (idle == NULL) {
        idle = "recv";
    }
    if (ranks < 2) {
        fprintf(stderr, "rtt: needs at least 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2) {
        for (int i = 0; i < count; i++) {
            measure(rank, sizes[i], any_source, rotate, budget_ms, ranks, ranks > 2 ? idle : "none");
        }
        for (int other = 2; rank == 0 && other < ranks; other++) {
            MPI_Send(NULL, 0, MPI_BYTE, other, TAG_END, MPI_COMM_WORLD);
        }
    } else {
        be_idle(idle);
    }
    MPI_Finalize();
    return 0;
}
