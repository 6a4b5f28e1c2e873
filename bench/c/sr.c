/*
 * The two measurements of the paper on MPI/MBCF (tables 3 and 4), between the first two ranks.
 *
 *   sr [--sizes 0,4,16] [--budget-ms 100] [--stream | --unmatched]
 *
 * Round trip: both post MPI_Irecv beforehand; one does MPI_Send and MPI_Wait, the other MPI_Wait and MPI_Send; the time goes from
 * the start of the send to the end of the receive in the first. The next receives are posted, and known to be posted by a message
 * of no bytes, before the next time begins.
 * --stream     one repeats sends, the other receives; the time goes to a final message back.
 * --unmatched  round trips of messages of 8 bytes into receives of the size: what a receive that is posted first, and told of, costs
 *              when no sender can write into it.
 */
#include "bench.h"
#include <mpi.h>

enum { TAG_DATA = 1, TAG_READY = 2, TAG_PLAN = 3, TAG_END = 4, MAX_SIZES = 16, SHORT_BYTES = 8 };

static int rank, peer;
static char *out, *in;

static void tell_ready(void) {
    MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, TAG_READY, NULL, 0, MPI_BYTE, peer, TAG_READY, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static double one_round_trip(size_t room, size_t bytes) {
    MPI_Request request;
    MPI_Irecv(in, (int)room, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD, &request);
    tell_ready();
    double start = now_ns();
    if (rank == 0) {
        MPI_Send(out, (int)bytes, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(out, (int)bytes, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD);
    }
    return now_ns() - start;
}

static double one_stream(size_t bytes, int messages) {
    tell_ready();
    double start = now_ns();
    for (int i = 0; i < messages; i++) {
        if (rank == 0) {
            MPI_Send(out, (int)bytes, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in, (int)bytes, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_END, MPI_COMM_WORLD);
    }
    return now_ns() - start;
}

static int both(int value) {
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
}

static void check_data(size_t bytes) {
    pattern_fill((unsigned char *)out, bytes, (unsigned)rank + 1);
    memset(in, 0xee, bytes);
    one_round_trip(bytes, bytes);
    if (!pattern_holds((unsigned char *)in, bytes, (unsigned)peer + 1)) {
        fprintf(stderr, "sr: rank %d: wrong data in a message of %zu bytes\n", rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void measure(size_t bytes, int stream, int unmatched, double budget_ms) {
    struct samples samples = samples_new();
    /* A stream is long enough that its end does not count: 1 MiB, or 256 messages. */
    int messages = stream ? (bytes < 4096 ? 256 : bytes > 65536 ? 16 : 64) : 1;
    check_data(bytes);
    double whole = now_ns();
    for (int more = 1; more && samples.count < samples.room;) {
        for (int i = 0; i < 8; i++) {
            size_t sent = unmatched ? SHORT_BYTES : bytes;
            samples_add(&samples, stream ? one_stream(bytes, messages) : one_round_trip(bytes, sent));
        }
        more = both(now_ns() - whole < budget_ms * 1e6);
    }
    if (rank == 0) {
        double median = samples_quantile(&samples, 0.5), least = samples_quantile(&samples, 0.0);
        if (stream) {
            printf("sr what=stream bytes=%zu median_gbs=%.4f n=%zu\n", bytes, (double)bytes * messages / median, samples.count);
        } else {
            printf("sr what=%s bytes=%zu median_ns=%.1f least_ns=%.1f n=%zu\n", unmatched ? "unmatched" : "rtt", bytes, median, least,
                   samples.count);
        }
        fflush(stdout);
    }
    free(samples.ns);
}

int main(int argc, char **argv) {
    int ranks;
    size_t sizes[MAX_SIZES], most = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "sr: needs 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    peer = 1 - rank;
    double budget_ms = option_number(argc, argv, "--budget-ms", 100);
    int stream = option(argc, argv, "--stream"), unmatched = option(argc, argv, "--unmatched");
    int count = option_sizes(argc, argv, "0,4,16,64,256,1024,4096,16384,65536,262144,1048576", sizes, MAX_SIZES);
    for (int i = 0; i < count; i++) {
        most = sizes[i] > most ? sizes[i] : most;
        if (unmatched && sizes[i] < SHORT_BYTES) {
            fprintf(stderr, "sr: --unmatched needs sizes of %d bytes and more\n", SHORT_BYTES);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    out = (char *)touched(most);
    in = (char *)touched(most);
    for (int i = 0; i < count; i++) {
        measure(sizes[i], stream, unmatched, budget_ms);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
