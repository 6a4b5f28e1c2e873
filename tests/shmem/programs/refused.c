/* Where the kernel refuses single copies between processes, symmetric memory that is mapped needs none: the
 * heap, and the static variables of a program that oshcc has linked. Argument: what PEs work on.
 *
 *   heap      the heap alone
 *   statics   static variables too, by every kind of operation
 *   put, get  static variables, by one operation: the end of a program that oshcc has not linked */
#define _GNU_SOURCE
#include "../../collectives/c/refuse.h"
#include "check.h"

enum { COUNT = 100000, COUNTERS = 4 };

struct memory {
    long counters[COUNTERS];
    long data[COUNT], found[COUNT];
};

static struct memory statics;

static void work_on(struct memory *memory, int me, int n)
{
    int right = (me + 1) % n, left = (me + n - 1) % n;
    long *mine = malloc(COUNT * sizeof *mine);
    for (int i = 0; i < COUNT; i++)
        mine[i] = 1000L * me + i;
    shmem_barrier_all();
    shmem_long_put(memory->data, mine, COUNT, right);
    shmem_barrier_all();
    CHECK(memory->data[0] == 1000L * left && memory->data[COUNT - 1] == 1000L * left + COUNT - 1);
    shmem_long_get(mine, memory->data, COUNT, right);
    CHECK(mine[0] == 1000L * me && mine[COUNT - 1] == 1000L * me + COUNT - 1);
    shmem_long_iput(memory->found, mine, 2, 1, COUNT / 2, right);
    shmem_barrier_all();
    CHECK(memory->found[0] == 1000L * left && memory->found[1] == 0);
    for (int i = 0; i < 1000; i++) {
        shmem_long_atomic_inc(&memory->counters[0], i % n);
        shmem_long_atomic_fetch_add(&memory->counters[1], 2, i % n);
    }
    shmem_barrier_all();
    long sums[2] = {0, 0};
    for (int pe = 0; pe < n; pe++)
        for (int i = 0; i < 2; i++)
            sums[i] += shmem_long_g(&memory->counters[i], pe);
    CHECK(sums[0] == 1000L * n && sums[1] == 2000L * n);
    shmem_long_p(&memory->counters[2], 1, right);
    shmem_long_wait_until(&memory->counters[2], SHMEM_CMP_EQ, 1);
    shmem_long_broadcast(SHMEM_TEAM_WORLD, memory->found, memory->data, COUNT, 0);
    CHECK(memory->found[COUNT - 1] == 1000L * (n - 1) + COUNT - 1);
    shmem_long_max_reduce(SHMEM_TEAM_WORLD, memory->found, memory->data, COUNT);
    CHECK(memory->found[COUNT - 1] == 1000L * (n - 1) + COUNT - 1);
    shmem_barrier_all();
    free(mine);
}

int main(int argc, char **argv)
{
    const char *what = argv[argc - 1];
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n;
    CHECK(refuse_single_copies() == 0);
    struct memory *heap = shmem_calloc(1, sizeof *heap);
    work_on(heap, me, n);
    shmem_free(heap);
    if (strcmp(what, "statics") == 0)
        work_on(&statics, me, n);
    if (strcmp(what, "put") == 0 && me == 0)
        shmem_long_p(&statics.counters[3], 1, right);
    if (strcmp(what, "get") == 0 && me == 0)
        CHECK(shmem_long_g(&statics.counters[3], right) == 0);
    shmem_barrier_all();
    return finish("refused");
}
