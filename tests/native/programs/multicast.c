/* Multicast: the same bytes for many ranks, one completion, refusals, targets that compute. */
#include "check.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

enum { LONGEST = 50000, ROUNDS = 200 };
static int n;

static void gather(const tutti_region *own, tutti_region *all)
{
    MPI_Allgather(own, sizeof *own, MPI_BYTE, all, sizeof *own, MPI_BYTE, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    tutti_region region, readable;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    tutti_region *all = calloc((size_t)n, sizeof *all), *mixed = calloc((size_t)n, sizeof *all);
    size_t total = (size_t)n * LONGEST + 8;
    char *memory = tutti_alloc(total), *data = malloc(LONGEST), *found = malloc(LONGEST);
    CHECK(tutti_open(memory, total, TUTTI_READ | TUTTI_WRITE, &region) == TUTTI_OK);
    CHECK(tutti_alias(&region, 0, total, TUTTI_READ, &readable) == TUTTI_OK);
    gather(&region, all);
    gather(me == n - 1 ? &readable : &region, mixed);

    /* Every rank to every rank, of all lengths; a target need not call anything. */
    static const size_t lengths[] = {1, 8, 1000, 7000, 8192, LONGEST};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(data, me * 16 + (int)i + 1, LONGEST);
        CHECK(tutti_multicast(all, n, (uint64_t)me * LONGEST, data, lengths[i], TUTTI_WAIT) == TUTTI_OK);
        for (int to = 0; to < n; to++) {
            CHECK(tutti_read(&all[to], (uint64_t)me * LONGEST, found, lengths[i], TUTTI_WAIT) == TUTTI_OK);
            CHECK(memcmp(found, data, lengths[i]) == 0);
        }
    }
    CHECK(tutti_multicast(all, n, 0, NULL, 0, TUTTI_WAIT) == TUTTI_OK);
    tutti_done done = {0, 0, 0};
    for (int round = 0; round < ROUNDS; round++) {
        data[0] = (char)round;
        CHECK(tutti_multicast(all, n, (uint64_t)me * LONGEST, data, 1, &done) == TUTTI_OK);
    }
    tutti_fence fence;
    CHECK(tutti_fence_start(&fence) == TUTTI_OK && tutti_fence_wait(&fence) == TUTTI_OK);
    for (int to = 0; to < n; to++)
        CHECK(tutti_read(&all[to], (uint64_t)me * LONGEST, found, 1, TUTTI_WAIT) == TUTTI_OK && found[0] == data[0]);
    CHECK(tutti_wait_until(&done.count, TUTTI_EQ, ROUNDS, TUTTI_ANY) == TUTTI_OK && done.status == TUTTI_OK);

    /* One refuses, and the others have it; the status is the combined one, and comes once. */
    MPI_Barrier(MPI_COMM_WORLD);
    memset(data, 100 + me, LONGEST);
    CHECK(tutti_multicast(mixed, n, (uint64_t)me * LONGEST, data, 100, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    for (int to = 0; to < n - 1; to++)
        CHECK(tutti_read(&all[to], (uint64_t)me * LONGEST, found, 100, TUTTI_WAIT) == TUTTI_OK && !memcmp(found, data, 100));
    CHECK(tutti_read(&all[n - 1], (uint64_t)me * LONGEST, found, 100, TUTTI_WAIT) == TUTTI_OK && memcmp(found, data, 100));
    tutti_done refused = {0, 0, 0};
    CHECK(tutti_multicast(all, n, total - 4, data, 8, &refused) == TUTTI_OK);
    CHECK(tutti_wait_until(&refused.count, TUTTI_EQ, 1, TUTTI_ANY) == TUTTI_OK && refused.status == TUTTI_ERR_RANGE);
    CHECK(tutti_multicast(all, n, UINT64_MAX - 3, data, 8, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    if (me == 0) {
        /* Packets behind the last address do not begin at the first one again. */
        char *late = calloc(4, LONGEST);
        CHECK(tutti_read(&all[n - 1], 0, found, LONGEST, TUTTI_WAIT) == TUTTI_OK);
        CHECK(tutti_multicast(all, n, UINT64_MAX - 29999, late, 4 * LONGEST, TUTTI_WAIT) == TUTTI_ERR_RANGE);
        CHECK(tutti_read(&all[n - 1], 0, late, LONGEST, TUTTI_WAIT) == TUTTI_OK && !memcmp(late, found, LONGEST));
        free(late);
    }
    CHECK(tutti_multicast(all, n, 0, data, 8, TUTTI_POSTED) == TUTTI_ERR_ARG);
    CHECK(tutti_multicast(all, 0, 0, data, 8, TUTTI_WAIT) == TUTTI_ERR_ARG);
    CHECK(tutti_multicast(NULL, 1, 0, data, 8, TUTTI_WAIT) == TUTTI_ERR_ARG);
    CHECK(tutti_multicast(all, 1, 0, NULL, 8, TUTTI_WAIT) == TUTTI_ERR_ARG);
    tutti_region forged = all[0];
    forged.words[1] ^= 1;
    CHECK(tutti_multicast(&forged, 1, 0, data, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);
    tutti_done noted = {0, 0, 0};
    tutti_multicast(&forged, 1, 0, data, 8, &noted);
    CHECK(noted.count == 1 && noted.status == TUTTI_ERR_REGION);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tutti_close(&readable) == TUTTI_OK && tutti_close(&region) == TUTTI_OK);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tutti_multicast(all, n, 0, data, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);

    int sum = failures;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && sum == 0)
        printf("multicast: ok\n");
    MPI_Finalize();
    return sum != 0;
}
