/* The symmetric heap: same place on every PE, alignment, contents, exhaustion, what is symmetric. */
#include "check.h"

/* All PEs have the block at the same distance from the first one. */
static void is_symmetric(char *first, void *block)
{
    long *mine = shmem_malloc(sizeof *mine), *other = shmem_malloc(sizeof *other);
    *mine = (char *)block - first;
    shmem_barrier_all();
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        CHECK(shmem_long_g(mine, pe) == *mine);
    shmem_barrier_all();
    shmem_free(other);
    shmem_free(mine);
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), on_stack = 0;
    char *first = shmem_malloc(1);
    char *blocks[40];
    for (int i = 0; i < 40; i++) {
        size_t bytes = (size_t)(i * i * 37 + 1);
        blocks[i] = i % 3 == 0 ? shmem_malloc(bytes) : i % 3 == 1 ? shmem_calloc(bytes, 1) : shmem_malloc_with_hints(bytes, SHMEM_MALLOC_SIGNAL_REMOTE);
        CHECK(blocks[i] != NULL);
        is_symmetric(first, blocks[i]);
        memset(blocks[i], i, bytes);
    }
    for (int i = 0; i < 40; i += 2)
        shmem_free(blocks[i]);
    for (int i = 1; i < 40; i += 2) {
        size_t bytes = (size_t)(i * i * 37 + 1);
        CHECK(blocks[i][0] == i && blocks[i][bytes - 1] == i);
        blocks[i] = shmem_realloc(blocks[i], bytes * 3);
        CHECK(blocks[i][0] == i && blocks[i][bytes - 1] == i);
        is_symmetric(first, blocks[i]);
        blocks[i] = shmem_realloc(blocks[i], 5);
        CHECK(blocks[i][4] == (char)(i > 0 ? i : 0) || bytes < 5);
        shmem_free(blocks[i]);
    }
    /* It grows in its place, and then moves. */
    char *grown = shmem_malloc(10);
    memset(grown, 7, 10);
    grown = shmem_realloc(grown, 60);
    memset(grown, 7, 60);
    grown = shmem_realloc(grown, 200);
    for (int i = 0; i < 60; i++)
        CHECK(grown[i] == 7);
    shmem_free(grown);
    for (size_t align = sizeof(void *); align <= (size_t)8 << 20; align *= 2) {
        void *aligned = shmem_align(align, 100);
        CHECK(aligned != NULL && (uintptr_t)aligned % align == 0);
        shmem_free(aligned);
    }
    char *zero = shmem_calloc(1000, 100);
    int all_zero = 1;
    for (int i = 0; i < 100000; i++)
        all_zero &= zero[i] == 0;
    CHECK(all_zero);
    shmem_barrier_all();
    CHECK(shmem_addr_accessible(zero, n - 1) == 1 && shmem_addr_accessible(&on_stack, n - 1) == 0);
    CHECK(shmem_addr_accessible(zero, n) == 0 && shmem_pe_accessible(n - 1) == 1 && shmem_pe_accessible(n) == 0 && shmem_pe_accessible(-1) == 0);
    CHECK(shmem_ptr(zero, me) == zero && shmem_ptr(&on_stack, me) == NULL && shmem_ptr(zero, n) == NULL);
    char *there = shmem_ptr(zero + 17, (me + 1) % n);
    CHECK((there != NULL) == is_mapped((me + 1) % n));
    if (there)
        *there = 3;
    else
        shmem_char_p(zero + 17, 3, (me + 1) % n);
    shmem_barrier_all();
    CHECK(zero[17] == 3);
    shmem_free(zero);
    CHECK(shmem_malloc(0) == NULL);
    CHECK(shmem_malloc((size_t)1 << 50) == NULL);
    char *large = shmem_malloc((size_t)100 << 20);
    CHECK(large != NULL);
    large[((size_t)100 << 20) - 1] = 1;
    shmem_free(large);
    shmem_free(NULL);
    shmem_free(first);
    return finish("heap");
}
