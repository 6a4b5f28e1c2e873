// PEs that wait for ever: for a flag that no PE sets, or, with the argument "locks", for each other's lock.
#include <shmem.h>
#include <string.h>

int main(int argc, char **argv) {
    shmem_init();
    long *words = shmem_calloc(2, sizeof *words);
    shmem_barrier_all();
    if (argc > 1 && !strcmp(argv[1], "locks")) {
        int me = shmem_my_pe() % 2;
        if (shmem_my_pe() < 2)
            shmem_set_lock(words + me);
        shmem_barrier_all();
        shmem_set_lock(words + 1 - me);
    } else {
        shmem_long_wait_until(words, SHMEM_CMP_EQ, 1);
    }
    shmem_finalize();
    return 0;
}
