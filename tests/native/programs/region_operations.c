/* Regions: write, read, atomic changes, gathered writes, queues, fences, rights and every status. */
#include "check.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

enum { WORDS = 65536, ROUNDS = 500, SHARED = 4096 };
static int n;

static void tell(const tutti_region *own, tutti_region *all)
{
    MPI_Allgather(own, sizeof *own, MPI_BYTE, all, sizeof *own, MPI_BYTE, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    tutti_region region, alias, queue;
    CHECK(tutti_queue_open(100, &queue) == TUTTI_ERR_RUNNING);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int right = (me + 1) % n;
    tutti_region *all = calloc((size_t)n, sizeof *all), *readable = calloc((size_t)n, sizeof *all);
    tutti_region *queues = calloc((size_t)n, sizeof *all);

    int64_t *memory = tutti_alloc(WORDS * 8);
    CHECK(memory && memory[0] == 0 && memory[WORDS - 1] == 0);
    CHECK(tutti_open(memory, WORDS * 8, TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC, &region) == TUTTI_OK);
    CHECK(tutti_alias(&region, 8, 64, TUTTI_READ, &alias) == TUTTI_OK);
    CHECK(tutti_open(&region, 8, TUTTI_READ, &queue) == TUTTI_ERR_ARG);
    CHECK(tutti_open(memory, SIZE_MAX, TUTTI_READ, &queue) == TUTTI_ERR_ARG);
    CHECK(tutti_free(memory) == TUTTI_ERR_BUSY);
    CHECK(tutti_queue_open(300, &queue) == TUTTI_OK);
    tell(&region, all);
    tell(&alias, readable);
    tell(&queue, queues);

    /* Writes and reads of all lengths, longer than a datagram too; noted and posted. */
    int64_t *out = malloc(WORDS * 8), *in = malloc(WORDS * 8);
    for (int i = 0; i < WORDS; i++)
        out[i] = (int64_t)me * WORDS + i;
    CHECK(tutti_write(&all[right], SHARED, out, WORDS * 8 - SHARED, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_read(&all[right], SHARED, in, WORDS * 8 - SHARED, TUTTI_WAIT) == TUTTI_OK);
    CHECK(memcmp(in, out, WORDS * 8 - SHARED) == 0);
    tutti_done done = {0, 0, 0};
    for (int64_t i = 0; i < ROUNDS; i++)
        CHECK(tutti_write(&all[right], (uint64_t)(1024 + i * 8 % 512), &i, 8, &done) == TUTTI_OK);
    CHECK(tutti_wait_until(&done.count, TUTTI_EQ, ROUNDS, TUTTI_ANY) == TUTTI_OK && done.status == TUTTI_OK);
    tutti_fence fence;
    int64_t mark = 77 + me;
    CHECK(tutti_write(&all[right], 2048, &mark, 8, TUTTI_POSTED) == TUTTI_OK);
    CHECK(tutti_fence_start(&fence) == TUTTI_OK);
    while (tutti_fence_test(&fence) == TUTTI_PENDING)
        ;
    CHECK(tutti_fence_wait(&fence) == TUTTI_OK);
    CHECK(tutti_read(&all[right], 2048, in, 8, TUTTI_WAIT) == TUTTI_OK && in[0] == mark);

    /* Gathered: three pieces, one completion; a wrong one changes nothing. */
    tutti_piece pieces[] = {{3000, "abc", 3}, {3100, "defgh", 5}, {3200, "", 0}};
    tutti_done gathered = {0, 0, 0};
    tutti_writev(&all[right], pieces, 3, &gathered);
    CHECK(tutti_wait_until(&gathered.count, TUTTI_EQ, 1, right) == TUTTI_OK && gathered.status == TUTTI_OK);
    CHECK(tutti_read(&all[right], 3000, in, 105, TUTTI_WAIT) == TUTTI_OK);
    CHECK(memcmp(in, "abc", 3) == 0 && memcmp((char *)in + 100, "defgh", 5) == 0);
    pieces[0].from = "xyz";
    pieces[1].offset = WORDS * 8 - 4;
    CHECK(tutti_writev(&all[right], pieces, 2, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_read(&all[right], 3000, in, 3, TUTTI_WAIT) == TUTTI_OK && memcmp(in, "abc", 3) == 0);

    /* Atomic changes of all ranks lose nothing. */
    int64_t found, sum = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(tutti_fetch_add(&all[0], 0, 1, &found, TUTTI_WAIT) == TUTTI_OK);
        do
            CHECK(tutti_read(&all[0], 8, &sum, 8, TUTTI_WAIT) == TUTTI_OK &&
                  tutti_compare_swap(&all[0], 8, sum, sum + 2, &found, TUTTI_WAIT) == TUTTI_OK);
        while (found != sum);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        CHECK(memory[0] == (int64_t)ROUNDS * n && memory[1] == (int64_t)ROUNDS * n * 2);
    CHECK(tutti_swap(&all[right], 16, 5, &found, TUTTI_WAIT) == TUTTI_OK && found == 0);

    /* What is refused. */
    CHECK(tutti_write(&readable[right], 0, out, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_read(&readable[right], 8, in, 8, TUTTI_WAIT) == TUTTI_OK && in[0] == 5);
    CHECK(tutti_read(&readable[right], 60, in, 8, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_read(&readable[right], UINT64_MAX - 3, in, 8, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_fetch_add(&readable[right], 0, 1, &found, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_fetch_add(&all[right], 4, 1, &found, TUTTI_WAIT) == TUTTI_ERR_ALIGN);
    CHECK(tutti_read(&all[right], 0, in, 8, TUTTI_POSTED) == TUTTI_ERR_ARG);
    CHECK(tutti_put(&all[right], "m", 1, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_write(&queues[right], 0, out, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_put(&queues[right], out, 4000, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    tutti_region forged = all[right];
    forged.words[2] ^= 4096;
    CHECK(tutti_write(&forged, 0, out, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);
    CHECK(tutti_alias(&alias, 0, 8, TUTTI_WRITE, &forged) == TUTTI_ERR_RIGHT);
    /* What ends behind the region, or behind the last address, changes no byte, however many packets it would take. */
    enum { LONG = 200000, BEYOND = WORDS * 8 - LONG / 2 };
    char *before = malloc(LONG), *behind = malloc(LONG);
    CHECK(tutti_read(&all[right], 0, before, LONG, TUTTI_WAIT) == TUTTI_OK);
    memset(out, 7, LONG);
    tutti_piece wrong[] = {{0, out, 8}, {UINT64_MAX - 29999, out, LONG}};
    CHECK(tutti_write(&all[right], UINT64_MAX - 29999, out, LONG, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_writev(&all[right], wrong, 2, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_read(&all[right], UINT64_MAX - 29999, behind, LONG, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_swap(&all[right], UINT64_MAX - 7, 1, &found, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_read(&all[right], 0, behind, LONG, TUTTI_WAIT) == TUTTI_OK && !memcmp(before, behind, LONG));
    CHECK(tutti_read(&all[right], BEYOND, before, LONG / 2, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_write(&all[right], BEYOND, out, LONG, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_read(&all[right], BEYOND, behind, LONG / 2, TUTTI_WAIT) == TUTTI_OK);
    CHECK(!memcmp(before, behind, LONG / 2));
    /* Whatever is wrong with the handle or the length, the operation has ended, and its completion has why. */
    tutti_done over = {0, 0, 0};
    tutti_write(&forged, 0, out, 8, &over);
    tutti_read(&forged, 0, in, 8, &over);
    tutti_swap(&forged, 0, 1, &found, &over);
    tutti_put(&forged, "m", 1, &over);
    tutti_multicast(&forged, 1, 0, out, 8, &over);
    CHECK(over.count == 5 && over.status == TUTTI_ERR_REGION);
    tutti_put(&queues[right], out, (size_t)INT32_MAX + 1, &over);
    CHECK(over.count == 6);
    free(before);
    free(behind);
    tutti_done refused = {0, 0, 0};
    tutti_write(&all[right], WORDS * 8, out, 8, &refused);
    CHECK(tutti_wait_until(&refused.count, TUTTI_EQ, 1, TUTTI_ANY) == TUTTI_OK);
    CHECK(refused.status == TUTTI_ERR_RANGE);
    int posted = tutti_write(&all[right], WORDS * 8, out, 8, TUTTI_POSTED);
    CHECK(tutti_fence_start(&fence) == TUTTI_OK);
    int ended = tutti_fence_wait(&fence);
    CHECK(posted == TUTTI_ERR_RANGE || ended == TUTTI_ERR_RANGE);

    /* Everybody fills the queue of rank 0; what is refused is sent again. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        int *next = calloc((size_t)n, sizeof *next);
        for (int left = ROUNDS * (n - 1); left > 0; left--) {
            int message[64], from = -1;
            size_t bytes = sizeof message;
            CHECK(tutti_take(&queue, message, &bytes, &from, 1) == TUTTI_OK);
            CHECK(from > 0 && from < n && message[0] == next[from] && bytes == (size_t)(1 + message[0] % 60) * 4);
            next[from]++;
        }
        size_t bytes = 8;
        int from;
        CHECK(tutti_take(&queue, in, &bytes, &from, 0) == TUTTI_EMPTY);
        free(next);
    } else {
        int message[64] = {0}, status;
        for (message[0] = 0; message[0] < ROUNDS; message[0]++) {
            while ((status = tutti_put(&queues[0], message, (size_t)(1 + message[0] % 60) * 4, TUTTI_WAIT)) == TUTTI_ERR_FULL)
                ;
            CHECK(status == TUTTI_OK);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int full = 0;
    while (tutti_put(&queues[me], "12345678", 8, TUTTI_WAIT) == TUTTI_OK)
        full++;
    CHECK(full >= 5 && tutti_put(&queues[me], "1", 1, TUTTI_WAIT) == TUTTI_ERR_FULL);
    size_t bytes = 4;
    int from;
    CHECK(tutti_take(&queue, in, &bytes, &from, 0) == TUTTI_ERR_RANGE && bytes == 8);

    /* A region that was closed, and one opened in its place. */
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tutti_close(&alias) == TUTTI_OK && tutti_close(&alias) == TUTTI_ERR_REGION);
    CHECK(tutti_alias(&region, 8, 64, TUTTI_READ, &alias) == TUTTI_OK);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tutti_read(&readable[right], 0, in, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(tutti_close(&alias) == TUTTI_OK && tutti_close(&region) == TUTTI_OK && tutti_close(&queue) == TUTTI_OK);
    CHECK(tutti_free(memory) == TUTTI_OK && tutti_free(memory) == TUTTI_ERR_ARG);

    int failed = failures;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && failed == 0)
        printf("regions: ok\n");
    MPI_Finalize();
    return failed != 0;
}
