// A flag that no PE sets: all wait for ever.
#include <shmem.h>

int main(void) {
    shmem_init();
    long *flag = shmem_calloc(1, sizeof *flag);
    shmem_barrier_all();
    shmem_long_wait_until(flag, SHMEM_CMP_EQ, 1);
    shmem_finalize();
    return 0;
}
