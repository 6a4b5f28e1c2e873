/* The deprecated collective operations on active sets. */
#include "check.h"

static long psync[SHMEM_SYNC_SIZE];
static int pwrk[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static int in[64], out[64 * 16];

int main(void)
{
    start_pes(0);
    int me = _my_pe(), n = _num_pes();
    for (int i = 0; i < 64; i++)
        in[i] = me * 100 + i, out[i] = -1;
    shmem_barrier_all();
    shmem_broadcast32(out, in, 10, n - 1, 0, 0, n, psync);
    CHECK(me == n - 1 ? out[0] == -1 : out[0] == (n - 1) * 100 && out[9] == (n - 1) * 100 + 9);
    shmem_barrier_all();
    shmem_fcollect32(out, in, 2, 0, 0, n, psync);
    CHECK(out[2 * (n - 1) + 1] == (n - 1) * 100 + 1);
    shmem_barrier_all();
    shmem_collect32(out, in, (size_t)me + 1, 0, 0, n, psync);
    CHECK(out[n * (n + 1) / 2 - 1] == (n - 1) * 100 + n - 1);
    shmem_barrier_all();
    shmem_alltoall32(out, in, 1, 0, 0, n, psync);
    CHECK(out[n - 1] == (n - 1) * 100 + me);
    shmem_barrier_all();
    shmem_alltoalls32(out, in, 2, 1, 1, 0, 0, n, psync);
    CHECK(out[2 * (n - 1)] == (n - 1) * 100 + me);
    shmem_barrier_all();
    shmem_int_sum_to_all(out, in, 3, 0, 0, n, pwrk, psync);
    CHECK(out[2] == n * (n - 1) / 2 * 100 + 2 * n);
    /* Every second PE. */
    if (me % 2 == 0) {
        int size = (n + 1) / 2;
        shmem_barrier(0, 1, size, psync);
        shmem_int_max_to_all(out, in, 1, 0, 1, size, pwrk, psync);
        CHECK(out[0] == (n - 1) / 2 * 200);
        shmem_int_min_to_all(out, in, 1, 0, 1, size, pwrk, psync);
        CHECK(out[0] == 0);
    }
    shmem_barrier_all();
    return finish("active_sets");
}
