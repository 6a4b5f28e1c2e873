/* MPI_Comm_spawn of four processes by one, until all are in MPI_Init and connected; each time new ones. */
#include "bench.h"
#include <mpi.h>

#define PROCESSES 4
/* As many as fit into the room that a job has without an option. */
#define TIMES 4

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    struct samples samples = samples_new();
    for (int i = 0; i < TIMES; i++) {
        double start = now_ns();
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, PROCESSES, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                       MPI_ERRCODES_IGNORE);
        samples_add(&samples, now_ns() - start);
        MPI_Comm_disconnect(&children);
    }
    printf("spawn processes=%d median_ns=%.0f p99_ns=%.0f n=%zu\n", PROCESSES, samples_quantile(&samples, 0.5),
           samples_quantile(&samples, 0.99), samples.count);
    MPI_Finalize();
    return 0;
}
