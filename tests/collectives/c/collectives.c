/*
 * Collective operations against results computed by each rank alone.
 *
 *   collectives [SEED [ROUNDS [common]]]
 *
 * All ranks draw the same random numbers, so each knows what every rank contributes and what it must get. Any deviation is
 * printed with rank, operation and place, and ends the job. The program uses the standard only; with `common` it runs on every MPI.
 */
#define _POSIX_C_SOURCE 200809L
#include "between_groups.h"
#include "gaps.h"
#include "movement.h"
#include "reductions.h"
#include "sequences.h"
#include "types.h"

enum { MAX_COMMS = 4 };

typedef void operation(MPI_Comm comm, int rank, int size, bool nonblocking);

static operation *const OPERATIONS[] = {barrier,  broadcast, gather,     scatter,    allgather, alltoall,
                                        gatherv,  scatterv,  allgatherv, alltoallvw, with_gaps, reduction,
                                        reduction, reduction};

static void mix(const MPI_Comm *comms, int comm_count, int rounds, int nonblocking_percent) {
    for (int i = 0; i < rounds; i++) {
        MPI_Comm comm = comms[below(comm_count)];
        int rank, size;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        nap(comm);
        bool nonblocking = below(100) < nonblocking_percent;
        OPERATIONS[below((int)(sizeof OPERATIONS / sizeof *OPERATIONS))](comm, rank, size, nonblocking);
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Comm comms[MAX_COMMS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    world_rank = rank;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 300;
    common = argc > 3 && strcmp(argv[3], "common") == 0;
    if (rank == 0) {
        printf("collectives: seed %llu, %d ranks\n", (unsigned long long)seed, size);
        fflush(stdout);
    }
    state = seed;
    if (size > MAX_RANKS) {
        fail("more than %d ranks", MAX_RANKS);
    }
    MPI_Op_create(compose_all, 0, &maps);
    int commutative = 1;
    MPI_Op_commutative(maps, &commutative);
    if (commutative != 0) {
        fail("the operation should not be commutative");
    }
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[3]);
    int comm_count = 3;
    for (int i = 0; i < comm_count; i++) {
        int r;
        MPI_Comm_rank(comms[i], &r);
        types_and_operations(comms[i], r, size);
        burst(comms[i], rounds * 5);
        pending(comms[i]);
        persistent(comms[i]);
    }
    for (int i = 0; size > 1 && i < 6; i++) {
        between_groups(1 + below(size - 1), i % 2 == 1);
    }
    mix(comms, comm_count, rounds, 0);
    mix(comms, comm_count, rounds, 50);
    /* The halves go their ways at their own pace, and draw differently where their sizes differ. */
    uint64_t together = state;
    mix(&comms[3], 1, rounds, 30);
    state = together;
    for (int i = 1; i < MAX_COMMS; i++) {
        MPI_Comm_free(&comms[i]);
    }
    /* Blocks of shared memory come back: many communicators, one after the other. */
    stage = "many communicators";
    MPI_Comm many[150];
    for (int i = 0; i < 150; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &many[i]);
        burst(many[i], 3);
        if (i % 3 != 0) {
            MPI_Comm_free(&many[i]);
        }
    }
    for (int i = 0; i < 150; i += 3) {
        burst(many[i], 3);
        MPI_Comm_free(&many[i]);
    }
    mix(comms, 1, 10, 0);
    MPI_Op_free(&maps);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("collectives: all right\n");
    }
    MPI_Finalize();
    return 0;
}
