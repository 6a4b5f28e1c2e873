/*
 * What one operation costs while many are pending: rank 0 and rank 1 start n of them and complete them all. A cost per operation that
 * grows with n is a list that is looked through.
 *
 *   many [--cases rendezvous,issend,...] [--counts 100,1000] [--budget-ms 100]
 *
 *   rendezvous   MPI_Isend of 20,000 bytes to posted receives, MPI_Waitall
 *   issend       MPI_Issend of 8 bytes to posted receives
 *   late         MPI_Issend of 8 bytes whose receives are posted when all have been announced
 *   backwards    MPI_Isend of 8 bytes, each with its tag, to receives that are posted in the other order
 *   unexpected   MPI_Isend of 8 bytes, each with its tag, received in the other order when all are there
 *   partitions   one message of n partitions of 8 bytes, ready at once, MPI_Wait
 *   pready       the same, MPI_Pready for each
 *   wild         the same of any source
 *   probe        MPI_Iprobe for each of n messages, the last one first, before they are received
 *   cancel       receives that are cancelled in the other order
 *   cancelsend   MPI_Issend whose receives are never posted, cancelled in the other order
 *   barriers     MPI_Ibarrier, MPI_Waitall
 *   allreduces   MPI_Iallreduce of one int, MPI_Waitall
 *   nested       MPI_Ibarrier on duplicates of MPI_COMM_WORLD, tested in turn until all are done; counted with the making
 *   persistent   MPI_Startall of 8 bytes to posted receives, MPI_Waitall
 *   waitany      MPI_Isend of 8 bytes to receives that are completed one by one by MPI_Waitany
 *   waitsome     the same by MPI_Waitsome
 *   comms        duplicates of MPI_COMM_WORLD, a message on each; counted are all but the making
 *   buffered     MPI_Bsend of 8 bytes into one buffer, received afterwards
 */
#include "bench.h"
#include <mpi.h>

enum { LARGE = 20000, SMALL = 8, TAG = 3 };

static int rank, peer, n;
static unsigned char *memory;
static MPI_Request *requests;
static int *indices;

static unsigned char *at(int i, size_t bytes) {
    return memory + (size_t)i * bytes;
}

static void together(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

static void receive_all(size_t bytes, int tag, int step) {
    for (int i = 0; i < n; i++) {
        int place = step < 0 ? n - 1 - i : i;
        MPI_Irecv(at(place, bytes), (int)bytes, MPI_BYTE, peer, tag + (step ? place : 0), MPI_COMM_WORLD, &requests[i]);
    }
}

static void complete(void) {
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

static void posted(size_t bytes, int synchronous, int step) {
    if (rank == 1) {
        receive_all(bytes, TAG, step);
    }
    together();
    if (rank == 0) {
        for (int i = 0; i < n; i++) {
            (synchronous ? MPI_Issend : MPI_Isend)(at(0, bytes), (int)bytes, MPI_BYTE, peer, TAG + (step ? i : 0),
                                                   MPI_COMM_WORLD, &requests[i]);
        }
    }
    complete();
}

static void rendezvous(void) {
    posted(LARGE, 0, 0);
}

static void issend(void) {
    posted(SMALL, 1, 0);
}

static void backwards(void) {
    posted(SMALL, 0, -1);
}

static void arrive_first(int synchronous, int step, int source, int probes) {
    int flag;
    if (rank == 0) {
        for (int i = 0; i < n; i++) {
            (synchronous ? MPI_Issend : MPI_Isend)(at(0, SMALL), SMALL, MPI_BYTE, peer, TAG + (step ? i : 0),
                                                   MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Ssend(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    } else {
        MPI_Probe(peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Iprobe(peer, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = n - 1; probes && i >= 0; i--) {
            MPI_Iprobe(source, TAG + i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        int named = peer;
        peer = source;
        receive_all(SMALL, TAG, step);
        peer = named;
    }
    complete();
}

static void late(void) {
    arrive_first(1, 0, peer, 0);
}

static void unexpected(void) {
    arrive_first(0, -1, peer, 0);
}

static void wild(void) {
    arrive_first(0, -1, MPI_ANY_SOURCE, 0);
}

static void probe(void) {
    arrive_first(0, 1, peer, 1);
}

static void partitioned(int at_once) {
    MPI_Request request;
    if (rank == 0) {
        MPI_Psend_init(memory, n, SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    } else {
        MPI_Precv_init(memory, n, SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    }
    MPI_Start(&request);
    together();
    if (rank == 0 && at_once) {
        MPI_Pready_range(0, n - 1, request);
    }
    for (int i = 0; rank == 0 && !at_once && i < n; i++) {
        MPI_Pready(i, request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

static void partitions(void) {
    partitioned(1);
}

static void pready(void) {
    partitioned(0);
}

static void cancel(void) {
    if (rank == 1) {
        receive_all(SMALL, TAG, 1);
        for (int i = n - 1; i >= 0; i--) {
            MPI_Cancel(&requests[i]);
        }
    }
    complete();
}

static void cancelsend(void) {
    int flag;
    if (rank == 0) {
        for (int i = 0; i < n; i++) {
            MPI_Issend(at(0, SMALL), SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = n - 1; i >= 0; i--) {
            MPI_Cancel(&requests[i]);
        }
    } else {
        MPI_Iprobe(peer, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    complete();
}

static void barriers(void) {
    for (int i = 0; i < n; i++) {
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[i]);
    }
    complete();
}

static void allreduces(void) {
    for (int i = 0; i < n; i++) {
        MPI_Iallreduce(MPI_IN_PLACE, at(i, SMALL), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    }
    complete();
}

static void nested(void) {
    static MPI_Comm made[16000];
    int flag, left = n, count = n < 16000 ? n : 16000;
    for (int i = 0; i < count; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &made[i]);
    }
    for (int i = 0; i < n; i++) {
        MPI_Ibarrier(made[i % count], &requests[i]);
    }
    for (int i = n - 1; left > 0; i = i > 0 ? i - 1 : n - 1) {
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            left -= flag;
        }
    }
    for (int i = 0; i < count; i++) {
        MPI_Comm_free(&made[i]);
    }
}

static void persistent(void) {
    for (int i = 0; i < n; i++) {
        if (rank == 1) {
            MPI_Recv_init(at(i, SMALL), SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Send_init(at(i, SMALL), SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]);
        }
    }
    for (int round = 0; round < 2; round++) {
        if (rank == 1) {
            MPI_Startall(n, requests);
        }
        together();
        if (rank == 0) {
            MPI_Startall(n, requests);
        }
        complete();
    }
    for (int i = 0; i < n; i++) {
        MPI_Request_free(&requests[i]);
    }
}

static void one_by_one(int some) {
    if (rank == 1) {
        receive_all(SMALL, TAG, 0);
    }
    together();
    for (int i = 0; rank == 0 && i < n; i++) {
        MPI_Isend(at(0, SMALL), SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0, done; i < n; i += done) {
        if (some) {
            MPI_Waitsome(n, requests, &done, indices, MPI_STATUSES_IGNORE);
        } else {
            MPI_Waitany(n, requests, indices, MPI_STATUS_IGNORE);
            done = 1;
        }
    }
}

static void waitany(void) {
    one_by_one(0);
}

static void waitsome(void) {
    one_by_one(1);
}

static void comms(void) {
    static MPI_Comm made[4000];
    int count = n < 4000 ? n : 4000;
    for (int i = 0; i < count; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &made[i]);
    }
    for (int i = 0; i < n; i++) {
        MPI_Sendrecv_replace(memory, SMALL, MPI_BYTE, peer, TAG, peer, TAG, made[i % count], MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < count; i++) {
        MPI_Comm_free(&made[i]);
    }
}

static void buffered(void) {
    static void *buffer;
    if (rank == 0) {
        int bytes = n * (SMALL + MPI_BSEND_OVERHEAD);
        buffer = malloc((size_t)bytes);
        MPI_Buffer_attach(buffer, bytes);
        for (int i = 0; i < n; i++) {
            MPI_Bsend(at(i, SMALL), SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        }
        together();
        MPI_Buffer_detach(&buffer, &bytes);
        free(buffer);
    } else {
        together();
        receive_all(SMALL, TAG, 0);
        complete();
    }
}

static const struct {
    const char *name;
    void (*run)(void);
    size_t bytes;
} cases[] = {
    {"rendezvous", rendezvous, LARGE}, {"issend", issend, SMALL},         {"late", late, SMALL},
    {"backwards", backwards, SMALL},   {"unexpected", unexpected, SMALL}, {"wild", wild, SMALL},
    {"probe", probe, SMALL},           {"partitions", partitions, SMALL}, {"pready", pready, SMALL},
    {"cancel", cancel, SMALL},         {"cancelsend", cancelsend, SMALL}, {"barriers", barriers, SMALL},
    {"allreduces", allreduces, SMALL}, {"nested", nested, SMALL},         {"persistent", persistent, SMALL},
    {"waitany", waitany, SMALL},       {"waitsome", waitsome, SMALL},     {"comms", comms, SMALL},
    {"buffered", buffered, SMALL},
};

/* Whether a name is in a list separated by commas. */
static int listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *p = list; p != NULL; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

static void measure(int c, int count, double budget_ms) {
    struct samples samples = samples_new();
    int again = 1;
    n = count;
    for (int i = 0; i < n; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
    double begun = now_ns();
    while (again) {
        together();
        double start = now_ns();
        cases[c].run();
        together();
        samples_add(&samples, (now_ns() - start) / n);
        again = now_ns() - begun < budget_ms * 1e6;
        MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
        printf("many case=%s count=%d median_ns=%.1f p99_ns=%.1f n=%zu\n", cases[c].name, n, median, p99, samples.count);
        fflush(stdout);
    }
    free(samples.ns);
}

int main(int argc, char **argv) {
    size_t counts[8];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    const char *which = option_text(argc, argv, "--cases");
    double budget_ms = option_number(argc, argv, "--budget-ms", 100);
    const char *text = option_text(argc, argv, "--counts");
    char *list[] = {"", "--sizes", (char *)(text ? text : "100,1000")};
    int how_many = option_sizes(3, list, "", counts, 8);
    for (int c = 0; c < (int)(sizeof cases / sizeof *cases); c++) {
        if (which != NULL && !listed(which, cases[c].name)) {
            continue;
        }
        for (int i = 0; i < how_many; i++) {
            memory = touched(counts[i] * cases[c].bytes);
            requests = malloc(counts[i] * sizeof *requests);
            indices = malloc(counts[i] * sizeof *indices);
            measure(c, (int)counts[i], budget_ms);
            free(memory);
            free(requests);
            free(indices);
        }
    }
    MPI_Finalize();
    return 0;
}
