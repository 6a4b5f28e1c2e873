/*
 * A stream of messages from rank 0 to rank 1: windows of MPI_Isend against MPI_Irecv, each answered once.
 *
 *   stream [--sizes 4096,...] [--window 16] [--budget-ms 150]
 */
#include "bench.h"
#include <mpi.h>

enum { TAG_DATA = 1, TAG_ANSWER = 2, TAG_MORE = 3, MAX_SIZES = 16, MAX_WINDOW = 64 };

static MPI_Request requests[MAX_WINDOW];

static void one_window(int rank, unsigned char *data, size_t bytes, int window) {
    for (int i = 0; i < window; i++) {
        unsigned char *at = data + (size_t)i * bytes;
        if (rank == 0) {
            MPI_Isend(at, (int)bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(at, (int)bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_ANSWER, MPI_COMM_WORLD);
    }
}

/* What rank 0 says holds for both. */
static int both(int rank, int value) {
    if (rank == 0) {
        MPI_Send(&value, 1, MPI_INT, 1, TAG_MORE, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, TAG_MORE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return value;
}

static void measure(int rank, size_t bytes, int window, double budget_ms) {
    unsigned char *data = touched(bytes * (size_t)window);
    struct samples samples = samples_new();
    pattern_fill(data, rank == 0 ? bytes * (size_t)window : 0, 1);
    one_window(rank, data, bytes, window);
    if (rank == 1 && !pattern_holds(data, bytes * (size_t)window, 1)) {
        fprintf(stderr, "stream: wrong data in messages of %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    double whole = now_ns();
    int windows = 0;
    for (int more = 1; more; windows++) {
        double start = now_ns();
        one_window(rank, data, bytes, window);
        samples_add(&samples, now_ns() - start);
        more = both(rank, now_ns() - whole < budget_ms * 1e6);
    }
    whole = now_ns() - whole;
    if (rank == 0) {
        double each = (double)bytes * window;
        printf("stream bytes=%zu window=%d median_gbs=%.4f p99_gbs=%.4f mean_gbs=%.4f n=%d\n", bytes, window,
               each / samples_quantile(&samples, 0.5), each / samples_quantile(&samples, 0.99), each * windows / whole,
               windows);
        fflush(stdout);
    }
    free(samples.ns);
    free(data);
}

int main(int argc, char **argv) {
    int rank, ranks;
    size_t sizes[MAX_SIZES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int count = option_sizes(argc, argv, "4096,16384,65536,1048576", sizes, MAX_SIZES);
    int window = (int)option_number(argc, argv, "--window", 16);
    double budget_ms = option_number(argc, argv, "--budget-ms", 150);
    if (ranks != 2 || window < 1 || window > MAX_WINDOW) {
        fprintf(stderr, "stream: needs 2 ranks and a window of 1 to %d\n", MAX_WINDOW);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) {
        measure(rank, sizes[i], window, budget_ms);
    }
    MPI_Finalize();
    return 0;
}
