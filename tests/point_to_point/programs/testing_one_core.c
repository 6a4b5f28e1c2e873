/*
 * Two ranks on one core hand a message to and fro, and look for it by calls that do not wait: MPI_Test,
 * MPI_Testall, MPI_Iprobe. What they look for happens only when the other one has the core, so each must hand
 * it on long before the kernel takes it away. The CPU time that they use up says whether they do; the load of
 * the machine does not count.
 */
#include "../../mpi/programs/check.h"

#include <sys/resource.h>

enum { TRIPS = 300, WAYS = 3, HANDOVER_US_MAX = 300 };

static double cpu_us(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void receive(int way, int peer, int *value) {
    MPI_Request request;
    int done = 0;
    if (way == 2) {
        while (!done) {
            MPI_Iprobe(peer, 5, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
        }
        MPI_Recv(value, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Irecv(value, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &request);
    while (!done) {
        if (way == 0) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        } else {
            MPI_Testall(1, &request, &done, MPI_STATUSES_IGNORE);
        }
    }
}

int main(int argc, char **argv) {
    int rank, way, i, value;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (way = 0; way < WAYS; way++) {
        double used, sum;
        MPI_Barrier(MPI_COMM_WORLD);
        used = cpu_us();
        for (i = 0; i < TRIPS; i++) {
            value = rank == 0 ? i : -1;
            if (rank == 0) {
                MPI_Send(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
            }
            receive(way, 1 - rank, &value);
            CHECK(value == i);
            if (rank == 1) {
                MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
            }
        }
        used = cpu_us() - used;
        MPI_Allreduce(&used, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("way %d: %.1f us of CPU time for a handover\n", way, sum / (2 * TRIPS));
            fflush(stdout);
        }
        CHECK(sum / (2 * TRIPS) < HANDOVER_US_MAX);
    }
    return finish("testing_one_core");
}
