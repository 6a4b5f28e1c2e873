/* A part of loaded.c: a region that counts its threads, and sleeps in each. Gives whether threads of this run time sleep at once
 * between regions (LLVM's alone says that), or -1 if threads were missing. */
#define _POSIX_C_SOURCE 200809L
#include <omp.h>
#include <time.h>

extern int kmp_get_blocktime(void) __attribute__((weak));

int region(long parallel_us) {
    int count = 0;
#pragma omp parallel reduction(+ : count)
    {
        struct timespec time = {0, parallel_us * 1000};
        ++count;
        nanosleep(&time, NULL);
    }
    if (count != omp_get_max_threads())
        return -1;
    return kmp_get_blocktime && kmp_get_blocktime() == 0;
}
