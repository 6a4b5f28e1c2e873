/* Regions, queues, signals and published regions from one rank to another, each with contents that are checked. Ranks may stand in
   namespaces of their own. Prints "rank R: WAY right", or "rank R: WAY refused: STATUS" where the library says so; ends with status 1
   after a wrong byte. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

#define BYTES (1 << 20)

static int rank, ranks, wrong;
static unsigned char out[BYTES], in[BYTES];
static volatile int64_t heard;

static unsigned char byte_of(int from, size_t at)
{
    return (unsigned char)(from * 37 + at * 7 + (at >> 9) + 1);
}

static void fill(unsigned char *place, int from)
{
    for (size_t at = 0; at < BYTES; at++)
        place[at] = byte_of(from, at);
}

static void check(const char *way, const unsigned char *place, int from)
{
    for (size_t at = 0; at < BYTES; at++)
        if (place[at] != byte_of(from, at)) {
            printf("rank %d: %s WRONG at byte %zu\n", rank, way, at);
            wrong = 1;
            return;
        }
}

static void say(const char *way, int status)
{
    if (status == TUTTI_OK)
        printf("rank %d: %s right\n", rank, way);
    else
        printf("rank %d: %s refused: %d\n", rank, way, status);
    fflush(stdout);
}

static void regions(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, status;
    unsigned char *memory = tutti_alloc(BYTES + 8);
    tutti_region own, all[16];
    int64_t before = 0;
    memset(memory, 0xee, BYTES);
    tutti_open(memory, BYTES + 8, TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC, &own);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    fill(out, rank);
    status = tutti_write(&all[to], 0, out, BYTES, TUTTI_WAIT);
    for (int other = 0; other < ranks && status == TUTTI_OK; other++)
        status = tutti_fetch_add(&all[other], BYTES, 1, &before, TUTTI_WAIT);
    MPI_Barrier(MPI_COMM_WORLD);
    check("regions", memory, from);
    if (*(volatile int64_t *)(memory + BYTES) != ranks) {
        printf("rank %d: regions counter WRONG\n", rank);
        wrong = 1;
    }
    if (status == TUTTI_OK) status = tutti_read(&all[from], 0, in, BYTES, TUTTI_WAIT);
    if (status == TUTTI_OK) check("regions", in, (from + ranks - 1) % ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fill(out, 9);
        int sent = tutti_multicast(all, ranks, 0, out, BYTES, TUTTI_WAIT);
        if (status == TUTTI_OK) status = sent;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check("multicast", memory, 9);
    tutti_close(&own);
    tutti_free(memory);
    say("regions", status);
}

static void hear(const void *data, size_t bytes, int from, void *context)
{
    int64_t number;
    (void)context;
    memcpy(&number, data, sizeof number);
    heard = bytes == sizeof number && number == from + 100 ? 1 : -1;
}

static void queues(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, status, sender = -1;
    size_t bytes = 4096;
    tutti_region pair[2], all[32];
    int64_t number = rank + 100;
    fill(out, rank);
    tutti_queue_open(1 << 14, &pair[0]);
    tutti_signal_open(64, hear, NULL, &pair[1]);
    MPI_Allgather(pair, sizeof pair, MPI_BYTE, all, sizeof pair, MPI_BYTE, MPI_COMM_WORLD);
    status = tutti_put(&all[2 * to], out, 4096, TUTTI_WAIT);
    if (status == TUTTI_OK) status = tutti_put(&all[2 * to + 1], &number, sizeof number, TUTTI_WAIT);
    if (tutti_take(&pair[0], in, &bytes, &sender, 1) != TUTTI_OK || sender != from || bytes != 4096) wrong = 1;
    for (size_t at = 0; at < 4096; at++)
        if (in[at] != byte_of(from, at)) wrong = 1;
    while (heard == 0) continue;
    if (heard != 1 || wrong) {
        printf("rank %d: queues WRONG\n", rank);
        wrong = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    tutti_close(&pair[0]);
    tutti_close(&pair[1]);
    say("queues", status);
}

/* What a namespace hides may be refused. */
static void published(const char *prefix)
{
    char name[64];
    void *memory = NULL;
    tutti_region own, other;
    size_t bytes = 0;
    snprintf(name, sizeof name, "%s-%d", prefix, rank);
    int status = tutti_publish(name, BYTES, TUTTI_READ | TUTTI_WRITE, NULL, &memory, &own), is_there[16];
    if (status == TUTTI_OK) fill(memory, rank);
    MPI_Allgather(&status, 1, MPI_INT, is_there, 1, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++) {
        snprintf(name, sizeof name, "%s-%d", prefix, from);
        int opened = is_there[from] == TUTTI_OK ? tutti_open_published(name, TUTTI_READ, &other, &bytes) : is_there[from];
        if (opened == TUTTI_OK) {
            opened = tutti_read(&other, 0, in, BYTES, TUTTI_WAIT);
            if (opened == TUTTI_OK) check("published", in, from);
            tutti_close(&other);
        }
        if (status == TUTTI_OK) status = opened;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    say("published", status);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    regions();
    queues();
    published(argv[1]);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong;
}
