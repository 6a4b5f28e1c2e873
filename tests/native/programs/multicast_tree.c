/* Multicast over a tree of nodes: what rank 0 sends and is answered, counted by stamps; every rank has every byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

enum { ROUNDS = 10, BYTES = 256, STAMPS = 4096 };

static tutti_stamped stamps[STAMPS];

static int count(uint32_t mark, int64_t all)
{
    int found = 0;
    for (int64_t i = 0; i < all; i++)
        found += stamps[i].mark == mark;
    return found;
}

int main(int argc, char **argv)
{
    int me, n, wrong = 0, records = 0, answers = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    tutti_region own, *all = calloc((size_t)n, sizeof *all);
    unsigned char *memory = tutti_alloc(ROUNDS * BYTES), data[BYTES];
    wrong += tutti_open(memory, ROUNDS * BYTES, TUTTI_READ | TUTTI_WRITE, &own) != TUTTI_OK;
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        wrong += tutti_stamps_start(STAMPS, 1) != TUTTI_OK;
        for (int round = 0; round < ROUNDS; round++) {
            memset(data, round + 1, BYTES);
            wrong += tutti_multicast(all, n, (uint64_t)round * BYTES, data, BYTES, TUTTI_WAIT) != TUTTI_OK;
        }
        int64_t kept = tutti_stamps_stop(stamps, STAMPS);
        wrong += kept < 0 || kept > STAMPS;
        records = count(TUTTI_STAMP_HANDED, kept);
        answers = count(TUTTI_STAMP_APPLIED, kept);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS * BYTES; i++)
        wrong += memory[i] != i / BYTES + 1;
    MPI_Barrier(MPI_COMM_WORLD);
    /* A fence covers what has not been answered; the regions come in any order. */
    for (int i = 0; i < n / 2; i++) {
        tutti_region one = all[i];
        all[i] = all[n - 1 - i], all[n - 1 - i] = one;
    }
    if (me == 0) {
        tutti_done done = {0, 0, 0};
        memset(data, 77, BYTES);
        for (int round = 0; round < ROUNDS; round++)
            wrong += tutti_multicast(all, n, (uint64_t)round * BYTES, data, BYTES, &done) != TUTTI_OK;
        tutti_fence fence;
        wrong += tutti_fence_start(&fence) != TUTTI_OK || tutti_fence_wait(&fence) != TUTTI_OK;
        wrong += done.count != ROUNDS || done.status != TUTTI_OK;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS * BYTES; i++)
        wrong += memory[i] != 77;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0)
        printf("tree: %d records, %d answers of %d multicasts: %s\n", records, answers, ROUNDS, wrong ? "WRONG" : "ok");
    MPI_Finalize();
    return wrong != 0;
}
