/* Symmetric memory of all kinds, with contents that are checked; PEs may stand in namespaces of their own. A
   static variable that the kernel does not reach may end the job with a line; never may a byte be wrong. */
#include <shmem.h>
#include <stdio.h>

#define COUNT (1 << 16)

static long fixed[COUNT], source[COUNT];

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes(), to = (me + 1) % pes, from = (me + pes - 1) % pes, wrong = 0;
    long *heap = shmem_malloc(sizeof(long) * COUNT), *sums = shmem_malloc(sizeof(long) * COUNT);
    for (long i = 0; i < COUNT; i++) source[i] = me * 100000L + i, heap[i] = -1;
    shmem_barrier_all();
    shmem_long_put(heap, source, COUNT, to);
    shmem_barrier_all();
    for (long i = 0; i < COUNT; i++) wrong |= heap[i] != from * 100000L + i;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sums, heap, COUNT);
    for (long i = 0; i < COUNT; i++) wrong |= sums[i] != pes * i + 100000L * pes * (pes - 1) / 2;
    printf("PE %d: heap %s\n", me, wrong ? "WRONG" : "right");
    fflush(stdout);
    shmem_barrier_all();
    shmem_long_put(fixed, source, COUNT, to);
    shmem_barrier_all();
    for (long i = 0; i < COUNT; i++) wrong |= fixed[i] != from * 100000L + i;
    printf("PE %d: static variables %s\n", me, wrong ? "WRONG" : "right");
    fflush(stdout);
    shmem_finalize();
    return wrong;
}
