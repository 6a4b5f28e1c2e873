/* A hash table over all PEs of OpenSHMEM that counts keys. A place belongs to the key that a compare-and-swap has written
 * first; its count is raised by atomic additions. The PE that has the place computes or inserts keys of its own meanwhile.
 * Usage: oshrun -n 4 hashtable [KEYS [ROUNDS]] */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t *keys, *counts; /* 0: the place is free */
static uint64_t places;         /* of each PE */
static int n;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The place of a key: its PE and its number there. With `insert` it is taken if the key has none; else -1 then. */
static int find(uint64_t key, int insert, uint64_t *place)
{
    uint64_t all = places * (uint64_t)n, at = mixed(key) % all;
    for (uint64_t tries = 0; tries < all; tries++, at = (at + 1) % all) {
        int pe = (int)(at / places);
        *place = at % places;
        uint64_t there = shmem_uint64_atomic_fetch(&keys[*place], pe);
        if (there == 0 && insert)
            there = shmem_uint64_atomic_compare_swap(&keys[*place], 0, key, pe);
        else if (there == 0)
            return -1;
        if (there == key || there == 0)
            return pe;
    }
    return -1;
}

int main(int argc, char **argv)
{
    uint64_t own = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    int rounds = argc > 2 ? atoi(argv[2]) : 2;
    shmem_init();
    int me = shmem_my_pe();
    n = shmem_n_pes();
    if (own < 1 || own > 1000000 || rounds < 1) {
        if (me == 0)
            fprintf(stderr, "usage: hashtable [KEYS 1..1000000 [ROUNDS]]\n");
        shmem_global_exit(2);
    }
    places = 2 * own;
    keys = shmem_calloc(places, sizeof *keys);
    counts = shmem_calloc(places, sizeof *counts);
    uint64_t *wrong = shmem_calloc(2, sizeof *wrong);
    if (!keys || !counts || !wrong)
        shmem_global_exit(1);

    /* A PE inserts the keys of its own and those of the next PE: each key is raised by two PEs at once. */
    for (int round = 0; round < rounds; round++)
        for (uint64_t i = 0; i < 2 * own; i++) {
            uint64_t key = 1 + ((uint64_t)me * own + i) % (own * (uint64_t)n), place;
            int pe = find(key, 1, &place);
            if (pe < 0)
                shmem_global_exit(3); /* full, which half as many keys as places cannot make it */
            shmem_uint64_atomic_inc(&counts[place], pe);
        }
    shmem_barrier_all();

    uint64_t bad = 0;
    for (uint64_t i = 0; i < own; i++) {
        uint64_t place;
        int pe = find(1 + (uint64_t)me * own + i, 0, &place);
        bad += pe < 0 || shmem_uint64_atomic_fetch(&counts[place], pe) != 2 * (uint64_t)rounds;
        bad += find(own * (uint64_t)n + 1 + (uint64_t)me * own + i, 0, &place) >= 0; /* never inserted */
    }
    shmem_uint64_atomic_add(wrong, bad, 0);
    shmem_barrier_all();
    int is_wrong = me == 0 && *wrong != 0;
    if (me == 0)
        printf("hashtable: %llu keys, %d PEs: %s\n", (unsigned long long)(own * (uint64_t)n), n,
               is_wrong ? "WRONG" : "verified");
    shmem_finalize();
    return is_wrong;
}
