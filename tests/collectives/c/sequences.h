/*
 * Many operations of one communicator: back to back, several at once, persistent ones again and again.
 */
#ifndef TUTTI_SEQUENCES_H
#define TUTTI_SEQUENCES_H

#include "draws.h"

/* Small operations back to back, without anything that brings the ranks together in between. */
static inline void burst(MPI_Comm comm, int rounds) {
    int rank, size, sum, last = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    stage = "burst of small operations";
    for (int i = 0; i < rounds; i++) {
        int root = below(size), number = below(1000000), all[MAX_RANKS], mine = number + rank;
        nap(comm);
        switch (below(6)) {
        case 0:
            last = rank == root ? number : -1;
            MPI_Bcast(&last, 1, MPI_INT, root, comm);
            if (last != number) {
                fail("round %d: bcast gives %d instead of %d", i, last, number);
            }
            break;
        case 1:
            MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, root, comm);
            if (rank == root && sum != number * size + size * (size - 1) / 2) {
                fail("round %d: reduce gives %d", i, sum);
            }
            break;
        case 2:
            MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, comm);
            if (sum != number + size - 1) {
                fail("round %d: allreduce gives %d", i, sum);
            }
            break;
        case 3:
            MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, root, comm);
            for (int r = 0; rank == root && r < size; r++) {
                if (all[r] != number + r) {
                    fail("round %d: gather gives %d for rank %d", i, all[r], r);
                }
            }
            break;
        case 4:
            for (int r = 0; r < size; r++) {
                all[r] = number + r;
            }
            MPI_Scatter(all, 1, MPI_INT, &sum, 1, MPI_INT, root, comm);
            if (sum != mine) {
                fail("round %d: scatter gives %d instead of %d", i, sum, mine);
            }
            break;
        default:
            MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_MAX, comm);
            if (sum != mine) {
                fail("round %d: scan gives %d instead of %d", i, sum, mine);
            }
        }
    }
}

/* Several operations pending at once, finished in another order than they were started. */
static inline void pending(MPI_Comm comm) {
    enum { N = 6 };
    int rank, size, in[N], out[N], indices[N], order;
    MPI_Request requests[N];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    stage = "several pending operations";
    for (int i = 0; i < N; i++) {
        in[i] = rank * 10 + i;
        MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, i % 2 == 0 ? MPI_SUM : MPI_MAX, comm, &requests[i]);
        if (i == 2) {
            MPI_Barrier(comm);
        }
    }
    for (int left = N; left > 0; left -= order) {
        MPI_Waitsome(N, requests, &order, indices, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < N; i++) {
        int expected = i % 2 == 0 ? 10 * size * (size - 1) / 2 + i * size : (size - 1) * 10 + i;
        if (out[i] != expected) {
            fail("operation %d gives %d instead of %d", i, out[i], expected);
        }
    }
}

/* Persistent requests, started again and again, in another order on every other rank. */
static inline void persistent(MPI_Comm comm) {
    enum { N = 4, LENGTH = 700 };
    int rank, size, sum[LENGTH], mine[LENGTH], from_root[LENGTH], root;
    int counts[MAX_RANKS], displacements[MAX_RANKS], all[MAX_RANKS * 2];
    MPI_Request requests[N];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    root = below(size);
    stage = "persistent operations";
    for (int i = 0; i < size; i++) {
        counts[i] = 1 + i % 2;
        displacements[i] = 2 * i;
    }
    MPI_Allreduce_init(mine, sum, LENGTH, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(from_root, LENGTH, MPI_INT, root, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Allgatherv_init(mine, counts[rank], MPI_INT, all, counts, displacements, MPI_INT, comm, MPI_INFO_NULL,
                        &requests[2]);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[3]);
    for (int round = 0; round < 5; round++) {
        uint64_t salt = draw();
        fill_ints(mine, LENGTH, salt, rank, 0);
        fill_ints(from_root, LENGTH, salt, rank, 0);
        memset(all, 0, sizeof all);
        nap(comm);
        if (rank % 2 == 0) {
            MPI_Startall(N, requests);
        } else {
            for (int i = N - 1; i >= 0; i--) {
                MPI_Start(&requests[i]);
            }
        }
        MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
        check_ints(from_root, LENGTH, salt, root, 0);
        for (int i = 0; i < LENGTH; i++) {
            int expected = 0;
            for (int r = 0; r < size; r++) {
                expected += value(salt, r, i);
            }
            if (sum[i] != expected) {
                fail("round %d, place %d: %d instead of %d", round, i, sum[i], expected);
            }
        }
        for (int r = 0; r < size; r++) {
            check_ints(all + 2 * r, 1 + r % 2, salt, r, 0);
        }
    }
    for (int i = 0; i < N; i++) {
        MPI_Request_free(&requests[i]);
    }
}

#endif
