/* One call with memory of the PE's own that cannot be accessed: the word says which. */
#define _GNU_SOURCE
#include <shmem.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define IS(word) (strcmp(argv[1], word) == 0)

int main(int argc, char **argv)
{
    enum { BYTES = 1 << 16 };
    (void)argc;
    shmem_init();
    int other = shmem_n_pes() - 1 - shmem_my_pe(), me = shmem_my_pe();
    long *heap = shmem_malloc(BYTES);
    long *bad = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long *fixed = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shmem_barrier_all();
    if (me == 0) {
        if (IS("put")) shmem_long_put(heap, bad, 8, other);
        if (IS("get")) shmem_long_get(fixed, heap, 8, other);
        if (IS("put-large")) shmem_putmem(heap, bad, BYTES, other);
        if (IS("get-large")) shmem_getmem(fixed, heap, BYTES, other);
        if (IS("put-nbi")) shmem_putmem_nbi(heap, bad, BYTES, other), shmem_quiet();
        if (IS("iput")) shmem_long_iput(heap, bad, 2, 2, 8, other);
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
