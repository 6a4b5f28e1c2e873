/* The C11 names that serve all types, with contexts and without, and one program of both interfaces. */
#include "check.h"
#include <mpi.h>

/* What shmem4py 1.0.0 looks at before it calls anything of 1.4 and 1.5. */
#if !defined(SHMEM_DEF_H) || !defined(SHMEM_FUNCTION_ATTRIBUTES)
#error "a program that knows headers by their names takes this one for an old one"
#endif

static int a;
static const double *constant;

#define ALL(T)                                                                           \
    do {                                                                                 \
        T *at = shmem_calloc(4, sizeof(T)), here[2] = {(T)3, (T)4}, back[2] = {0};       \
        shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                                             \
        shmem_put(at, here, 2, right);                                                   \
        shmem_put(ctx, at + 2, (const T *)here, 2, right);                               \
        shmem_barrier_all();                                                             \
        CHECK(at[0] == (T)3 && at[3] == (T)4);                                           \
        shmem_get(back, at, 2, right);                                                   \
        CHECK(back[1] == (T)4 && shmem_g(at, right) == (T)3);                            \
        CHECK(shmem_g(ctx, at + 1, right) == (T)4);                                      \
        shmem_barrier_all();                                                             \
        shmem_p(at, (T)9, right);                                                        \
        shmem_p(ctx, at + 1, (T)8, right);                                               \
        shmem_iput(at + 2, here, 1, 1, 1, right);                                        \
        shmem_barrier_all();                                                             \
        CHECK(at[0] == (T)9 && at[1] == (T)8 && at[2] == (T)3);                          \
        shmem_free(at);                                                                  \
    } while (0)

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n, rank, flag = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(rank == me);
    ALL(float);
    ALL(double);
    ALL(long double);
    ALL(char);
    ALL(signed char);
    ALL(short);
    ALL(int);
    ALL(long);
    ALL(long long);
    ALL(unsigned char);
    ALL(unsigned short);
    ALL(unsigned int);
    ALL(unsigned long);
    ALL(unsigned long long);
    ALL(size_t);
    ALL(ptrdiff_t);
    shmem_atomic_inc(&a, right);
    shmem_atomic_add(SHMEM_CTX_DEFAULT, &a, 4, right);
    shmem_wait_until(&a, SHMEM_CMP_EQ, 5);
    CHECK(shmem_test(&a, SHMEM_CMP_GT, 4) == 1 && shmem_atomic_fetch(&a, me) == 5 && shmem_fetch(&a, me) == 5);
    shmem_sync(SHMEM_TEAM_WORLD);
    int *sum = shmem_malloc(sizeof *sum), *one = shmem_malloc(sizeof *one);
    *one = me;
    CHECK(shmem_sum_reduce(SHMEM_TEAM_WORLD, sum, one, 1) == 0 && *sum == n * (n - 1) / 2);
    CHECK(shmem_broadcast(SHMEM_TEAM_WORLD, sum, one, 1, n - 1) == 0 && *sum == n - 1);
    double *place = shmem_malloc(sizeof *place);
    *place = 2.5;
    constant = place;
    CHECK(shmem_g(constant, me) == 2.5);
    /* A message while another rank waits for a put. */
    static long arrived;
    int sent = me, got = -1;
    MPI_Sendrecv(&sent, 1, MPI_INT, right, 0, &got, 1, MPI_INT, (me + n - 1) % n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == (me + n - 1) % n);
    shmem_atomic_inc(&arrived, right);
    shmem_wait_until(&arrived, SHMEM_CMP_EQ, 1L);
    int result = finish("generics");
    MPI_Finalized(&flag);
    if (flag)
        return 1;
    MPI_Finalize();
    return result;
}
