/*
 * Operations of rank 0 on the memory of rank 1, which waits in a barrier, and synchronisations of both.
 *
 *   windows [--budget-ms 40] [--computing]
 *
 * how=allocated: memory that MPI_Win_allocate gives; how=created: memory of malloc under MPI_Win_create.
 * --computing: only operations of 8 B while rank 1 computes and calls nothing: one behind the other
 * (how=stream), and a lone one each millisecond (how=lone). lost is the share of its work that rank 1 lost.
 */
#include "bench.h"

#include <mpi.h>

enum { BYTES = 4 << 20, MANY = 10000 };

static int rank;
static MPI_Win win;
static MPI_Group other;
static int elements, bytes;
static double *numbers, *results;
static const char *how;
static double budget_ms;

static void put(void) {
    MPI_Put(numbers, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
    MPI_Win_flush(1, win);
}

static void get(void) {
    MPI_Get(results, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
    MPI_Win_flush(1, win);
}

static void fetch_and_op(void) {
    MPI_Fetch_and_op(numbers, results, MPI_LONG, 1, 0, MPI_SUM, win);
    MPI_Win_flush(1, win);
}

static void compare_and_swap(void) {
    MPI_Compare_and_swap(numbers, numbers, results, MPI_LONG, 1, 0, win);
    MPI_Win_flush(1, win);
}

static void accumulate(void) {
    MPI_Accumulate(numbers, elements, MPI_DOUBLE, 1, 0, elements, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush(1, win);
}

static void lock_put(void) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
    MPI_Put(numbers, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
    MPI_Win_unlock(1, win);
}

static void fence(void) {
    MPI_Win_fence(0, win);
}

static void four_calls(void) {
    MPI_Win_post(other, 0, win);
    MPI_Win_start(other, 0, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
}

/* Many short ones on the way at once. */
static void put_many(void) {
    for (int i = 0; i < MANY; i++) {
        MPI_Put(numbers, 8, MPI_BYTE, 1, 8 * i, 8, MPI_BYTE, win);
    }
    MPI_Win_flush(1, win);
}

static double time_of(void (*action)(void), int count) {
    double start = now_ns();
    for (int i = 0; i < count; i++) {
        action();
    }
    return (now_ns() - start) / count;
}

/* Rank 0 measures; the other one takes part if it is `together`, else it waits. */
static void measure(const char *op, void (*action)(void), int together) {
    struct samples samples = samples_new();
    struct plan p = {0, 0};
    if (rank == 0 || together) {
        time_of(action, 10);
        p = plan_for(time_of(action, 10), budget_ms);
    }
    MPI_Bcast(&p, sizeof p, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0 || together) {
        for (int i = 0; i < p.batches; i++) {
            samples_add(&samples, time_of(action, p.per_batch));
        }
    }
    if (rank == 0) {
        double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        printf("windows op=%s how=%s bytes=%d median_ns=%.1f p99_ns=%.1f n=%zu\n", op, how, bytes, median, p99,
               samples.count);
        fflush(stdout);
    }
    free(samples.ns);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What is put is got again, and sums are right. */
static void check_data(void) {
    if (rank == 0) {
        long one = 1, found = -1;
        unsigned char *there = (unsigned char *)results;
        bytes = BYTES;
        pattern_fill((unsigned char *)numbers, BYTES, 5);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        put();
        get();
        int is_right = pattern_holds(there, BYTES, 5);
        found = 0;
        MPI_Put(&found, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
        MPI_Win_flush(1, win);
        for (int i = 0; i < 5; i++) {
            MPI_Fetch_and_op(&one, &found, MPI_LONG, 1, 0, MPI_SUM, win);
            MPI_Win_flush(1, win);
        }
        MPI_Win_unlock(1, win);
        if (!is_right || found != 4) {
            fprintf(stderr, "windows: wrong data, %ld\n", found);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    memset(numbers, 0, BYTES);
}

static void measure_operations(int with_all) {
    static const int sizes[4] = {8, 65536, 1 << 20, BYTES}, counts[5] = {1, 8, 128, 8192, 131072};
    check_data();
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 4; i++) {
        bytes = sizes[i];
        measure("put", put, 0);
        measure("get", get, 0);
    }
    bytes = 8;
    if (with_all) {
        measure("put_many", put_many, 0);
    }
    measure("fetch_and_op", fetch_and_op, 0);
    measure("compare_and_swap", compare_and_swap, 0);
    for (int i = 0; with_all && i < 5; i++) {
        elements = counts[i];
        bytes = elements * 8;
        measure("accumulate", accumulate, 0);
    }
    MPI_Win_unlock_all(win);
    bytes = 8;
    if (with_all) {
        measure("lock_put_unlock", lock_put, 0);
        measure("post_start_complete_wait", four_calls, 1);
        measure("fence", fence, 1);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    }
}

/* How many loops rank 1 does in so long, without a call. */
static double loops_within(double ms) {
    double start = now_ns(), loops = 0;
    while (now_ns() - start < ms * 1e6) {
        work(2000);
        loops += 2000;
    }
    return loops / (now_ns() - start);
}

/* Rank 1 computes for twice as long as rank 0 works on its memory, so a library may not wait for its calls. */
static void measure_while_computing(const char *op, void (*action)(void), int is_lone) {
    double undisturbed = 0, lost = 0, alone_ms = budget_ms / 4;
    if (rank == 1) {
        undisturbed = loops_within(alone_ms);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        double disturbed = loops_within(budget_ms);
        loops_within(budget_ms);
        lost = 1 - disturbed / undisturbed;
        MPI_Send(&lost, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    } else {
        struct samples samples = samples_new();
        double start = now_ns();
        do {
            for (double begin = now_ns(); is_lone && now_ns() - begin < 1e6;) {
            }
            double before = now_ns();
            action();
            samples_add(&samples, now_ns() - before);
        } while (now_ns() - start < budget_ms * 1e6);
        MPI_Recv(&lost, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("windows op=%s how=%s bytes=%d median_ns=%.1f p99_ns=%.1f p999_ns=%.1f lost=%.3f n=%zu\n", op,
               is_lone ? "lone" : "stream", bytes, samples_quantile(&samples, 0.5), samples_quantile(&samples, 0.99),
               samples_quantile(&samples, 0.999), lost, samples.count);
        fflush(stdout);
        free(samples.ns);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void measure_computing(void) {
    bytes = 8;
    MPI_Win_lock_all(0, win);
    for (int is_lone = 0; is_lone <= 1; is_lone++) {
        measure_while_computing("put", put, is_lone);
        measure_while_computing("get", get, is_lone);
        measure_while_computing("fetch_and_op", fetch_and_op, is_lone);
    }
    MPI_Win_unlock_all(win);
}

int main(int argc, char **argv) {
    MPI_Group world;
    void *memory;
    int one = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    budget_ms = option_number(argc, argv, "--budget-ms", 40);
    numbers = (double *)touched(BYTES);
    results = (double *)touched(BYTES);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    one = 1 - rank;
    MPI_Group_incl(world, 1, &one, &other);

    how = "allocated";
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (option(argc, argv, "--computing")) {
        measure_computing();
        MPI_Win_free(&win);
    } else {
        measure_operations(1);
        MPI_Win_free(&win);

        how = "created";
        memory = touched(BYTES);
        MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        measure_operations(0);
        MPI_Win_free(&win);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&other);
    MPI_Finalize();
    return 0;
}
