/* An OpenMP program that knows nothing of us: serial work, then a region that counts, and sleeps for it. regions ROUNDS SERIAL_US
 * PARALLEL_US. Prints the time of all rounds in ms, and what together.h counts. */
#define _POSIX_C_SOURCE 200809L
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "together.h"

static void compute(long us) {
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    long rounds = atol(argv[1]), serial = atol(argv[2]), parallel = atol(argv[3]), count = 0;
    together_begin();
    double began = omp_get_wtime();
    for (long round = 0; round < rounds; ++round) {
        compute(serial);
        together_worked();
#pragma omp parallel reduction(+ : count)
        {
            ++count;
            if (omp_get_thread_num() == 0)
                together_enter();
            compute(parallel);
            if (omp_get_thread_num() == 0)
                together_leave();
        }
    }
    if (count < rounds || count > rounds * omp_get_max_threads())
        return 3;
    printf("phases: %.1f ms\n", 1e3 * (omp_get_wtime() - began));
    together_end();
    return 0;
}
