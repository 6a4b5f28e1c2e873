/* Atomic operations: each does what it says, and none is lost when all PEs change one place. Argument: how
 * often they change it; 20,000 times without. */
#include "check.h"

static int rounds = 20000;

#define COMMON(T, NAME)                                                                  \
    do {                                                                                 \
        T *at = shmem_malloc(sizeof(T)), found = 0;                                      \
        *at = (T)me;                                                                     \
        shmem_barrier_all();                                                             \
        CHECK(shmem_##NAME##_atomic_fetch(at, right) == (T)right);                       \
        shmem_barrier_all();                                                             \
        CHECK(shmem_##NAME##_atomic_swap(at, (T)100, right) == (T)right);                \
        shmem_barrier_all();                                                             \
        shmem_##NAME##_atomic_set(at, (T)7, right);                                      \
        shmem_barrier_all();                                                             \
        CHECK(*at == (T)7);                                                              \
        shmem_##NAME##_atomic_fetch_nbi(&found, at, right);                              \
        shmem_quiet();                                                                   \
        CHECK(found == (T)7);                                                            \
        shmem_barrier_all();                                                             \
        shmem_##NAME##_atomic_swap_nbi(&found, at, (T)8, right);                         \
        shmem_quiet();                                                                   \
        CHECK(found == (T)7);                                                            \
        shmem_barrier_all();                                                             \
        shmem_free(at);                                                                  \
    } while (0)

#define INTEGER(T, NAME)                                                                 \
    do {                                                                                 \
        COMMON(T, NAME);                                                                 \
        T *at = shmem_malloc(sizeof(T)), found = 0;                                      \
        *at = 5;                                                                         \
        shmem_barrier_all();                                                             \
        CHECK(shmem_##NAME##_atomic_compare_swap(at, 4, 9, right) == 5);                 \
        CHECK(shmem_##NAME##_atomic_compare_swap(at, 5, 9, right) == 5);                 \
        CHECK(shmem_##NAME##_atomic_fetch_inc(at, right) == 9);                          \
        shmem_##NAME##_atomic_inc(at, right);                                            \
        CHECK(shmem_##NAME##_atomic_fetch_add(at, 10, right) == 11);                     \
        shmem_##NAME##_atomic_add(at, 100, right);                                       \
        shmem_##NAME##_atomic_fetch_add_nbi(&found, at, 1, right);                       \
        shmem_##NAME##_atomic_fetch_inc_nbi(&found, at, right);                          \
        shmem_quiet();                                                                   \
        CHECK(found == 122);                                                             \
        shmem_##NAME##_atomic_compare_swap_nbi(&found, at, 123, 0, right);               \
        shmem_quiet();                                                                   \
        CHECK(found == 123);                                                             \
        shmem_barrier_all();                                                             \
        CHECK(*at == 0);                                                                 \
        shmem_barrier_all();                                                             \
        for (int i = 0; i < rounds / 10; i++)                                            \
            shmem_##NAME##_atomic_inc(at, 0);                                            \
        shmem_barrier_all();                                                             \
        CHECK(shmem_##NAME##_g(at, 0) == (T)(n * (rounds / 10)));                        \
        shmem_barrier_all();                                                             \
        shmem_free(at);                                                                  \
    } while (0)

#define BITWISE(T, NAME)                                                                 \
    do {                                                                                 \
        T *at = shmem_malloc(sizeof(T)), found = 0;                                      \
        *at = 0xf0;                                                                      \
        shmem_barrier_all();                                                             \
        CHECK(shmem_##NAME##_atomic_fetch_or(at, 0x0f, right) == 0xf0);                  \
        CHECK(shmem_##NAME##_atomic_fetch_and(at, 0x3c, right) == 0xff);                 \
        CHECK(shmem_##NAME##_atomic_fetch_xor(at, 0xff, right) == 0x3c);                 \
        shmem_##NAME##_atomic_or(at, 0x100, right);                                      \
        shmem_##NAME##_atomic_and(at, 0x1c1, right);                                     \
        shmem_##NAME##_atomic_xor(at, 0x001, right);                                     \
        shmem_##NAME##_atomic_fetch_or_nbi(&found, at, 1, right);                        \
        shmem_quiet();                                                                   \
        CHECK(found == 0x1c0);                                                           \
        shmem_##NAME##_atomic_fetch_and_nbi(&found, at, 1, right);                       \
        shmem_##NAME##_atomic_fetch_xor_nbi(&found, at, 1, right);                       \
        shmem_quiet();                                                                   \
        CHECK(found == 1);                                                               \
        shmem_barrier_all();                                                             \
        CHECK(*at == 0);                                                                 \
        shmem_free(at);                                                                  \
    } while (0)

/* Each ticket is given out once. */
static void tickets(int n)
{
    long *next = shmem_calloc(1, sizeof *next);
    unsigned char *taken = shmem_calloc((size_t)n * (size_t)rounds, 1);
    for (int i = 0; i < rounds; i++) {
        long ticket = shmem_long_atomic_fetch_inc(next, n - 1);
        CHECK(ticket >= 0 && ticket < (long)n * rounds);
        shmem_uchar_p(taken + ticket, (unsigned char)(shmem_uchar_g(taken + ticket, 0) + 1), 0);
    }
    shmem_barrier_all();
    int once = 1;
    if (shmem_my_pe() == 0)
        for (long i = 0; i < (long)n * rounds; i++)
            once &= taken[i] == 1;
    CHECK(once);
    shmem_free(taken);
    shmem_free(next);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n;
    COMMON(float, float);
    COMMON(double, double);
    INTEGER(int, int);
    INTEGER(long, long);
    INTEGER(long long, longlong);
    INTEGER(unsigned int, uint);
    INTEGER(unsigned long, ulong);
    INTEGER(unsigned long long, ulonglong);
    INTEGER(int32_t, int32);
    INTEGER(int64_t, int64);
    INTEGER(uint32_t, uint32);
    INTEGER(uint64_t, uint64);
    INTEGER(size_t, size);
    INTEGER(ptrdiff_t, ptrdiff);
    BITWISE(unsigned int, uint);
    BITWISE(unsigned long, ulong);
    BITWISE(unsigned long long, ulonglong);
    BITWISE(int32_t, int32);
    BITWISE(int64_t, int64);
    BITWISE(uint32_t, uint32);
    BITWISE(uint64_t, uint64);
    tickets(n);
    return finish("atomics");
}
