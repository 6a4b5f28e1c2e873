/* A program that loads code with OpenMP regions as Python loads its extensions: by dlopen, each with a scope of its own.
 * loaded ROUNDS SERIAL_US PARALLEL_US PART...: serial work, then a region of each part, in each round. Says for each part in how
 * many rounds its threads were to sleep between regions, and what together.h counts of LLVM's regions. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "together.h"

enum { PARTS_MAX = 4 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    int parts = argc - 4;
    if (parts < 1 || parts > PARTS_MAX)
        return 2;
    long rounds = atol(argv[1]), serial = atol(argv[2]), parallel = atol(argv[3]), asleep[PARTS_MAX] = {0};
    int (*region[PARTS_MAX])(long, void (*)(void), void (*)(void));
    for (int part = 0; part < parts; ++part) {
        void *library = dlopen(argv[4 + part], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
        *(void **)&region[part] = dlsym(library, "region");
    }
    together_begin();
    double began = now();
    for (long round = 0; round < rounds; ++round) {
        struct timespec time = {0, serial * 1000};
        nanosleep(&time, NULL);
        together_worked();
        for (int part = 0; part < parts; ++part) {
            int is_asleep = region[part](parallel, together_enter, together_leave);
            if (is_asleep < 0)
                return 4;
            asleep[part] += is_asleep;
        }
    }
    printf("phases: %.1f ms\n", now() - began);
    for (int part = 0; part < parts; ++part)
        printf("part %d: %ld rounds asleep\n", part, asleep[part]);
    together_end();
    return 0;
}
