/* Distributed locks: one PE at a time, in the heap and in static variables; what was written under the lock is
 * seen. Argument: how often each PE takes one; 2,000 times without. */
#include "check.h"

static long lock;
static long shared;

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    shmem_init();
    int n = shmem_n_pes();
    long *locks = shmem_calloc(5, sizeof *locks), *counts = shmem_calloc(5, sizeof *counts);
    for (int i = 0; i < rounds; i++) {
        long *one = i % 6 == 5 ? &lock : &locks[i % 6], *count = i % 6 == 5 ? &shared : &counts[i % 6];
        if (i % 7 == 0)
            while (shmem_test_lock(one))
                ;
        else
            shmem_set_lock(one);
        long found = shmem_long_g(count, n - 1);
        shmem_long_p(count, found + 1, n - 1);
        shmem_clear_lock(one);
    }
    shmem_barrier_all();
    long sum = shmem_long_g(&shared, n - 1);
    for (int i = 0; i < 5; i++)
        sum += shmem_long_g(&counts[i], n - 1);
    CHECK(sum == (long)n * rounds);
    CHECK(lock == 0 && locks[0] == 0 && locks[4] == 0);
    if (shmem_my_pe() == 0) {
        CHECK(shmem_test_lock(&lock) == 0);
        shmem_clear_lock(&lock);
    }
    return finish("locks");
}
