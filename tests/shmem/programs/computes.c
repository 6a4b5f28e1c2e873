/* PE 1 computes and calls nothing, until PE 0 has put, fetched and added many times and then says so. */
#include "check.h"

int main(void)
{
    enum { TIMES = 1000 };
    static long sum, data[64];
    static volatile int stop;
    shmem_init();
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        long found = -1;
        for (long i = 0; i < TIMES; i++) {
            found = shmem_long_atomic_fetch_add(&sum, 1, 1);
            CHECK(found == i);
            shmem_long_p(&data[i % 64], i, 1);
            CHECK(shmem_long_g(&data[i % 64], 1) == i);
        }
        shmem_int_p((int *)&stop, 1, 1);
        shmem_quiet();
    } else if (shmem_my_pe() == 1) {
        unsigned long steps = 0;
        while (!stop)
            steps++;
        CHECK(sum == TIMES && steps > 0);
    }
    return finish("computes");
}
