/* Random access, as the RandomAccess of the HPC Challenge does it, with OpenSHMEM: words of a table over all PEs are changed
 * by exclusive or with a random number, whose low bits say which. All changes are atomic here, so that doing the same once
 * more gives the table of the beginning back: not a single one may be lost or done twice.
 * Usage: oshrun -n 4 random_access [LOG2 OF THE WORDS OF A PE [UPDATES OF A PE]] */
#define _POSIX_C_SOURCE 199309L
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The updates of a PE; each PE has a stream of its own. */
static void update(uint64_t *table, int bits, uint64_t updates, int me, uint64_t n)
{
    uint64_t random = 0x9e3779b97f4a7c15u * (uint64_t)(me + 1);
    for (uint64_t i = 0; i < updates; i++) {
        random = (random << 1) ^ ((random >> 63) ? 7 : 0);
        uint64_t at = random * 0xd1342543de82ef95u >> 8;
        shmem_uint64_atomic_xor(&table[at & (((uint64_t)1 << bits) - 1)], random, (int)((at >> bits) % n));
    }
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    int bits = argc > 1 ? atoi(argv[1]) : 12;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    if (bits < 1 || bits > 24) {
        if (me == 0)
            fprintf(stderr, "usage: random_access [LOG2 OF WORDS 1..24 [UPDATES]]\n");
        shmem_global_exit(2);
    }
    uint64_t words = (uint64_t)1 << bits, updates = argc > 2 ? strtoull(argv[2], NULL, 10) : 4 * words;
    uint64_t *table = shmem_malloc(words * sizeof *table), *wrong = shmem_calloc(2, sizeof *wrong);
    if (!table || !wrong)
        shmem_global_exit(1);
    for (uint64_t i = 0; i < words; i++)
        table[i] = (uint64_t)me * words + i;
    shmem_barrier_all();

    double begin = now();
    update(table, bits, updates, me, (uint64_t)n);
    double seconds = now() - begin;
    uint64_t changed = 0, bad = 0;
    for (uint64_t i = 0; i < words; i++)
        changed += table[i] != (uint64_t)me * words + i;
    shmem_barrier_all();
    update(table, bits, updates, me, (uint64_t)n);
    for (uint64_t i = 0; i < words; i++)
        bad += table[i] != (uint64_t)me * words + i;
    shmem_uint64_atomic_add(&wrong[0], bad, 0);
    shmem_uint64_atomic_add(&wrong[1], changed, 0);
    shmem_barrier_all();
    int is_wrong = me == 0 && (wrong[0] != 0 || (wrong[1] == 0 && updates > 0));
    if (me == 0)
        printf("random_access: %llu updates of %llu words, %d PEs: %.6f GUPS: %s\n",
               (unsigned long long)(updates * (uint64_t)n), (unsigned long long)(words * (uint64_t)n), n,
               1e-9 * (double)updates * n / seconds, is_wrong ? "WRONG" : "verified");
    shmem_finalize();
    return is_wrong;
}
