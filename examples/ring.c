/*
 * A token goes round the ring; every rank adds its number. Rank 0 checks the sum and prints the time per hop.
 *
 *   mpiexec -n 4 ./ring [rounds]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, ranks, rounds = argc > 1 ? atoi(argv[1]) : 1000;
    long token = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            /* Alone on the ring, rank 0 is its own neighbour: post the receive before the send. */
            MPI_Request arriving;
            long back;
            MPI_Irecv(&back, 1, MPI_LONG, left, 0, MPI_COMM_WORLD, &arriving);
            MPI_Send(&token, 1, MPI_LONG, right, 0, MPI_COMM_WORLD);
            MPI_Wait(&arriving, MPI_STATUS_IGNORE);
            token = back;
        } else {
            MPI_Recv(&token, 1, MPI_LONG, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += rank;
            MPI_Send(&token, 1, MPI_LONG, right, 0, MPI_COMM_WORLD);
        }
    }
    double took_s = MPI_Wtime() - start;

    int wrong = 0;
    if (rank == 0) {
        long expected = (long)rounds * ranks * (ranks - 1) / 2;
        wrong = token != expected;
        printf("%d rounds over %d ranks: token %ld, %s; %.3f us per hop\n", rounds, ranks, token,
               wrong ? "WRONG" : "as expected", took_s * 1e6 / ((double)rounds * ranks));
    }
    MPI_Finalize();
    return wrong;
}
