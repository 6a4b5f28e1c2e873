/* Serial and parallel phases on virtual processors: computing is sleeping. phases ROUNDS SERIAL_US PARALLEL_US [HOW [FILE]]:
 * never: its phase never ends; dies: it dies in its third phase; waits: its third phase lasts until FILE is there;
 * forks: a child has phases of its own. Prints the time of all rounds in ms, and what together.h counts. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti.h>
#include <unistd.h>

#include "together.h"

static void compute(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&time, NULL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    long rounds = atol(argv[1]), serial = atol(argv[2]), parallel = atol(argv[3]);
    /* A sleep is as long as it is said to be. */
    prctl(PR_SET_TIMERSLACK, 1);
    const char *how = argc > 4 ? argv[4] : "";
    together_begin();
    double began = now();
    for (long round = 0; round < rounds; ++round) {
        compute(serial);
        together_worked();
        tutti_parallel_begin();
        together_enter();
        compute(parallel);
        if (round == 2 && !strcmp(how, "never")) {
            puts("in its phase");
            fflush(stdout);
            for (;;)
                compute(100000);
        }
        if (round == 2 && !strcmp(how, "dies"))
            raise(SIGKILL);
        if (round == 2 && !strcmp(how, "waits")) {
            puts("in its phase");
            fflush(stdout);
            while (access(argv[5], F_OK))
                compute(1000);
        }
        if (round == 2 && !strcmp(how, "forks")) {
            pid_t child = fork();
            if (child == 0) {
                for (int i = 0; i < 10; ++i) {
                    tutti_parallel_begin();
                    tutti_parallel_end();
                }
                _exit(7);
            }
            int status = 0;
            waitpid(child, &status, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
                return 3;
        }
        together_leave();
        tutti_parallel_end();
    }
    printf("phases: %.1f ms\n", now() - began);
    together_end();
    return 0;
}
