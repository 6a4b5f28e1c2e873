/* A gang of two ranks beside a filler, whose cgroup's file `cgroup.freeze` is the first argument. `hurts`: while
 * the filler is let run the ranks call MPI a third as often. `gains`: while it is, they call it three times as
 * often, so that what other load takes from a window is never a loss by the filler. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <mpi.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, word = 0, hurts = argc > 2 && strcmp(argv[2], "hurts") == 0;
    const char slow = hurts ? '0' : '1';
    int freeze = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (freeze < 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double next = now();
    for (;;) {
        if (rank != 0) {
            MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            continue;
        }
        char frozen = '1';
        if (pread(freeze, &frozen, 1, 0) != 1)
            MPI_Abort(MPI_COMM_WORLD, 4);
        next += frozen == slow ? 0.003 : 0.001;
        while (now() < next)
            continue;
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    }
}
