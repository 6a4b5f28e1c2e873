/* Puts with a signal: who sees the signal sees the data. Argument: how many; 500 without. */
#include "check.h"

int main(int argc, char **argv)
{
    enum { WORDS = 100 };
    int rounds = argc > 1 ? atoi(argv[1]) : 500;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
    long *data = shmem_calloc(WORDS, sizeof *data), out[WORDS];
    uint64_t *signal = shmem_calloc(2, sizeof *signal);
    for (long round = 1; round <= rounds; round++) {
        for (int i = 0; i < WORDS; i++)
            out[i] = me * 1000 + round + i;
        if (round % 2)
            shmem_long_put_signal(data, out, WORDS, &signal[0], (uint64_t)round, SHMEM_SIGNAL_SET, right);
        else
            shmem_ctx_putmem_signal_nbi(SHMEM_CTX_DEFAULT, data, out, sizeof out, &signal[0], 1, SHMEM_SIGNAL_ADD, right);
        CHECK(shmem_signal_wait_until(&signal[0], SHMEM_CMP_GE, (uint64_t)round) == (uint64_t)round);
        int right_data = 1;
        for (int i = 0; i < WORDS; i++)
            right_data &= data[i] == left * 1000 + round + i;
        CHECK(right_data && shmem_signal_fetch(&signal[0]) == (uint64_t)round);
        shmem_signal_add(&signal[1], 1, left);
        shmem_signal_wait_until(&signal[1], SHMEM_CMP_GE, (uint64_t)round);
    }
    shmem_barrier_all();
    shmem_signal_set(&signal[1], 9, right);
    shmem_barrier_all();
    CHECK(shmem_signal_fetch(&signal[1]) == 9);
    return finish("signals");
}
