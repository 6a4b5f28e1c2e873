/* A fork bomb: every process forks as often as it may, for so many seconds. Says "up" when it begins. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    double end = seconds() + (argc > 1 ? atof(argv[1]) : 10);
    puts("up");
    fflush(stdout);
    while (seconds() < end)
        if (fork() < 0)
            /* The children of others may have ended; ours are reaped. */
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
    return 0;
}
