/*
 * A master starts workers and gives them work; each adds up its share of the numbers from 1 to `last`. The program is
 * both: a process that other ranks have started has a parent, and is a worker.
 *
 *   mpiexec -n 1 --universe 5 ./spawn [workers]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void work(MPI_Comm master) {
    long last, sum = 0;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Bcast(&last, 1, MPI_LONG, 0, master);
    for (long number = rank + 1; number <= last; number += ranks) {
        sum += number;
    }
    MPI_Reduce(&sum, NULL, 1, MPI_LONG, MPI_SUM, 0, master);
}

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    int rank, wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        work(parent);
        MPI_Comm_disconnect(&parent);
    } else {
        int workers = argc > 1 ? atoi(argv[1]) : 4, root = rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
        long last = 1000000, sum = 0;
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, workers, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                       MPI_ERRCODES_IGNORE);
        MPI_Bcast(&last, 1, MPI_LONG, root, children);
        MPI_Reduce(NULL, &sum, 1, MPI_LONG, MPI_SUM, root, children);
        if (rank == 0) {
            wrong = sum != last * (last + 1) / 2;
            printf("%d workers: the sum is %ld, %s\n", workers, sum, wrong ? "WRONG" : "as expected");
        }
        MPI_Comm_disconnect(&children);
    }
    MPI_Finalize();
    return wrong;
}
