/* Two worlds of one job use OpenSHMEM at once: the ranks that mpiexec has started, and their children. Each reaches the
 * memory of its own world alone. The program is its own child. */
#include "check.h"
#include <mpi.h>

static long in_statics[64], lock;

static void use(long mark)
{
    int me = shmem_my_pe(), n = shmem_n_pes(), rank, size;
    long *in_heap = shmem_calloc(64, sizeof *in_heap), got = 0;
    long *counted = shmem_calloc(1, sizeof *counted);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(me == rank && n == size && n <= 32);
    for (int pe = 0; pe < n; pe++) {
        shmem_long_p(&in_heap[me], mark + 100 * me + pe, pe);
        shmem_long_p(&in_statics[me], mark + 100 * me + pe, pe);
        shmem_long_atomic_inc(&in_heap[40], pe);
    }
    shmem_barrier_all();
    CHECK(in_heap[40] == n);
    for (int pe = 0; pe < n; pe++) {
        CHECK(in_heap[pe] == mark + 100 * pe + me && in_statics[pe] == mark + 100 * pe + me);
        for (int from = 0; from < n; from++) {
            CHECK(shmem_long_g(&in_heap[from], pe) == mark + 100 * from + pe);
            shmem_getmem(&got, &in_statics[from], sizeof got, pe);
            CHECK(got == mark + 100 * from + pe);
        }
        CHECK(shmem_ptr(in_heap, pe) == NULL || *((long *)shmem_ptr(in_heap, pe) + pe) == mark + 100 * pe + pe);
    }
    for (int round = 0; round < 20; round++) {
        shmem_set_lock(&lock);
        shmem_long_p(counted, shmem_long_g(counted, 0) + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(counted, 0) == 20 * n);
    /* A PE that sleeps is woken by one of its world. */
    shmem_long_p(&in_heap[50], 1, (me + 1) % n);
    shmem_long_wait_until(&in_heap[50], SHMEM_CMP_EQ, 1);
    int near = shmem_team_n_pes(SHMEM_TEAM_SHARED), mapped = 0;
    for (int pe = 0; pe < n; pe++)
        mapped += shmem_ptr(in_heap, pe) != NULL;
    CHECK(near == mapped);
    shmem_barrier_all();
    shmem_free(counted);
    shmem_free(in_heap);
}

int main(int argc, char **argv)
{
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&other);
    int is_child = other != MPI_COMM_NULL;
    if (!is_child)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    shmem_init();
    for (int round = 0; round < 5; round++) {
        MPI_Barrier(other);
        use(is_child ? 50000 : 90000);
    }
    int status = finish(is_child ? "children" : "parents");
    MPI_Barrier(other);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return status;
}
