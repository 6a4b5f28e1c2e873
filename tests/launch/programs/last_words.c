/* Prints by buffers of C, and ends as its argument says. `hold` as a second one: another thread holds the lock
   of stdout for ever. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *hold(void *there)
{
    flockfile(stdout);
    *(volatile int *)there = 1;
    for (;;) pause();
    return NULL;
}

static void abort_in_handler(int signal)
{
    (void)signal;
    MPI_Abort(MPI_COMM_WORLD, 6);
}

static void end(const char *how, FILE *file)
{
    int x = 0;
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 6);
    if (!strcmp(how, "fatal")) MPI_Send(&x, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    if (!strcmp(how, "errors-abort")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
        MPI_Send(&x, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    }
    signal(SIGUSR1, abort_in_handler);
    if (!strcmp(how, "handler")) raise(SIGUSR1);
    if (!strcmp(how, "handler-in-receive") || !strcmp(how, "handler-in-printf")) {
        pid_t own = getpid();
        if (fork() == 0) {
            usleep(100000);
            kill(own, SIGUSR1);
            _exit(0);
        }
        if (!strcmp(how, "handler-in-receive"))
            MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (;;) fprintf(file, "%d", x);
    }
}

int main(int argc, char **argv)
{
    /* A buffer of its own: nothing leaves by itself. */
    static char buffer[1 << 16];
    int rank, level;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        FILE *file = fopen(argv[2], "w"), *null = fopen("/dev/null", "w");
        static volatile int holds;
        pthread_t thread;
        if (argc > 3) {
            pthread_create(&thread, NULL, hold, (void *)&holds);
            while (!holds) usleep(1000);
        } else
            printf("the reason\n");
        fprintf(file, "to the file\n");
        end(argv[1], null);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
