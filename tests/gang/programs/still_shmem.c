/* still_shmem: PEs that wait for a word that nobody stores. */
#include <shmem.h>
#include <stdio.h>

int main(void)
{
    static long word;
    shmem_init();
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        puts("still_shmem: up");
        fflush(stdout);
    }
    shmem_long_wait_until(&word, SHMEM_CMP_NE, 0);
    shmem_finalize();
    return 0;
}
