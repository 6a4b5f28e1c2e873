// All PEs sleep for most of the time, and none of them for ever: a flag goes round and all want one lock,
// through a network that loses most datagrams. Argument: rounds.
#include "check.h"

int main(int argc, char **argv) {
    long rounds = atol(argv[argc - 1]);
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    long *flag = shmem_calloc(1, sizeof *flag), *lock = shmem_calloc(1, sizeof *lock);
    long *sum = shmem_calloc(1, sizeof *sum);
    shmem_barrier_all();
    for (long round = 1; round <= rounds; round++) {
        if (me == 0)
            shmem_long_p(flag, round, 1 % pes);
        shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
        if (me != 0)
            shmem_long_p(flag, round, (me + 1) % pes);
        shmem_set_lock(lock);
        shmem_long_p(sum, shmem_long_g(sum, 0) + 1, 0);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    if (me == 0)
        CHECK(*sum == rounds * pes);
    return finish("patience");
}
