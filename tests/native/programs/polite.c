/* polite MESSAGES FILE: when FILE is there, rank 1 sends so many long messages to rank 0, which says each one that it has. In the
 * end rank 1 says which part of its time in MPI_Send it computed, in percent. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1 << 20, JUDGED = 3 };

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int messages = atoi(argv[1]), rank = 0;
    char *data = calloc(BYTES, 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* Each has heard of the other, and has looked for its board. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("polite: up");
        fflush(stdout);
        for (int i = 0; i < messages; ++i) {
            MPI_Recv(data, BYTES, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (data[0] != (char)i)
                MPI_Abort(MPI_COMM_WORLD, 3);
            printf("message %d\n", i);
            fflush(stdout);
        }
        long percent = 0;
        MPI_Recv(&percent, 1, MPI_LONG, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("computed %ld\n", percent);
    } else {
        struct timespec pause = {0, 1000000};
        while (access(argv[2], F_OK))
            nanosleep(&pause, NULL);
        double began = seconds(CLOCK_MONOTONIC), computed = seconds(CLOCK_PROCESS_CPUTIME_ID);
        long percent = 0;
        for (int i = 0; i < messages; ++i) {
            data[0] = (char)i;
            MPI_Send(data, BYTES, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
            if (i + 1 == JUDGED)
                percent = (long)(100 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - computed) /
                                 (seconds(CLOCK_MONOTONIC) - began));
        }
        MPI_Send(&percent, 1, MPI_LONG, 0, 8, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    free(data);
    return 0;
}
