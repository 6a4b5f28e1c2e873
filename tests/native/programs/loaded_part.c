/* A part of loaded.c: a region that counts its threads, and sleeps in each. LLVM's calls the functions at its
 * begin and its end. Gives whether threads of this run time sleep at once between regions (LLVM's alone says
 * that), or -1 if threads were missing. */
#define _POSIX_C_SOURCE 200809L
#include <omp.h>
#include <stddef.h>
#include <time.h>

extern int kmp_get_blocktime(void) __attribute__((weak));

int region(long parallel_us, void (*enter)(void), void (*leave)(void)) {
    int count = 0, is_llvm = kmp_get_blocktime != NULL;
#pragma omp parallel reduction(+ : count)
    {
        struct timespec time = {0, parallel_us * 1000};
        ++count;
        if (is_llvm && omp_get_thread_num() == 0)
            enter();
        nanosleep(&time, NULL);
        if (is_llvm && omp_get_thread_num() == 0)
            leave();
    }
    if (count != omp_get_max_threads())
        return -1;
    return is_llvm && kmp_get_blocktime() == 0;
}
