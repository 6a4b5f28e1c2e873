/*
 * Round trips by sockets between two ranks, as programs without a message-passing library make them: TCP with TCP_NODELAY, and UDP
 * without anything above it. Both wait in the kernel. Between two namespaces or machines.
 *
 *   mpiexec --netns 2 -n 2 sockets [--sizes 4,16,64] [--budget-ms 50]
 */
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_SIZES = 16, LONGEST = 1408, LEAST = 64, SECONDS = 20 };

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The address at which the other rank reaches this one; loopback where there is no other. */
static in_addr_t own_address(void) {
    struct ifaddrs *all, *one;
    in_addr_t found = htonl(INADDR_LOOPBACK);
    must(getifaddrs(&all) == 0, "getifaddrs");
    for (one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET) {
            struct sockaddr_in address;
            memcpy(&address, one->ifa_addr, sizeof address);
            if (address.sin_addr.s_addr != htonl(INADDR_LOOPBACK)) {
                found = address.sin_addr.s_addr;
                break;
            }
        }
    }
    freeifaddrs(all);
    return found;
}

static int make(int kind) {
    int made = socket(AF_INET, kind, 0), on = 1;
    struct timeval most = {SECONDS, 0};
    must(made >= 0, "socket");
    must(setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0, "SO_RCVTIMEO");
    if (kind == SOCK_STREAM) {
        must(setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
    }
    return made;
}

/* A connected socket of either kind. */
static int join(int kind, int rank) {
    struct sockaddr_in own = {.sin_family = AF_INET}, other;
    socklen_t size = sizeof own;
    int mine = make(kind), peer = 1 - rank;
    own.sin_addr.s_addr = own_address();
    must(bind(mine, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    must(getsockname(mine, (struct sockaddr *)&own, &size) == 0, "getsockname");
    if (kind == SOCK_STREAM && rank == 1) {
        must(listen(mine, 1) == 0, "listen");
    }
    MPI_Sendrecv(&own, sizeof own, MPI_BYTE, peer, 0, &other, sizeof other, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (kind == SOCK_STREAM && rank == 1) {
        int taken = accept(mine, NULL, NULL), on = 1;
        must(taken >= 0, "accept");
        must(setsockopt(taken, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
        close(mine);
        return taken;
    }
    must(connect(mine, (struct sockaddr *)&other, sizeof other) == 0, "connect");
    return mine;
}

static void give(int to, const char *data, size_t bytes) {
    must(send(to, data, bytes, 0) == (ssize_t)bytes, "send");
}

static void take(int from, char *data, size_t bytes) {
    for (size_t have = 0; have < bytes;) {
        ssize_t more = recv(from, data + have, bytes - have, 0);
        must(more > 0, "recv");
        have += (size_t)more;
    }
}

static void measure(int kind, const char *name, size_t bytes, double budget_ns, int rank) {
    static char data[LONGEST];
    struct samples trips = samples_new();
    int joined = join(kind, rank);
    char more = 1;
    double begin = now_ns();
    MPI_Barrier(MPI_COMM_WORLD);
    while (more) {
        if (rank == 0) {
            double start = now_ns();
            more = trips.count < LEAST || (trips.count < MAX_BATCHES && start - begin < budget_ns);
            data[0] = more;
            give(joined, data, bytes);
            take(joined, data, bytes);
            samples_add(&trips, now_ns() - start);
        } else {
            take(joined, data, bytes);
            more = data[0];
            give(joined, data, bytes);
        }
    }
    if (rank == 0) {
        printf("sockets what=%s bytes=%zu median_ns=%.0f n=%zu\n", name, bytes, samples_quantile(&trips, 0.5), trips.count);
        fflush(stdout);
    }
    close(joined);
    free(trips.ns);
}

int main(int argc, char **argv) {
    size_t sizes[MAX_SIZES];
    int rank, ranks, count = option_sizes(argc, argv, "4,16,64,256,1024", sizes, MAX_SIZES);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double budget_ns = option_number(argc, argv, "--budget-ms", 50) * 1e6;
    for (int i = 0; i < count; i++) {
        if (ranks != 2 || sizes[i] < 1 || sizes[i] > LONGEST) {
            fprintf(stderr, "sockets: expected 2 ranks, and sizes of 1 to %d bytes\n", LONGEST);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        measure(SOCK_STREAM, "tcp", sizes[i], budget_ns, rank);
        measure(SOCK_DGRAM, "udp", sizes[i], budget_ns, rank);
    }
    MPI_Finalize();
    return 0;
}
