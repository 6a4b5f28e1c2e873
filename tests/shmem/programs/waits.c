/* Waiting and testing: every comparison, arrays with all, any and some, flags that exclude, data behind the flag. */
#include "check.h"

#define TYPED(T, NAME)                                                                   \
    do {                                                                                 \
        T *flag = shmem_calloc(1, sizeof(T));                                            \
        shmem_barrier_all();                                                             \
        shmem_##NAME##_p(flag, (T)5, right);                                             \
        shmem_##NAME##_wait_until(flag, SHMEM_CMP_EQ, (T)5);                             \
        shmem_##NAME##_wait_until(flag, SHMEM_CMP_NE, (T)0);                             \
        shmem_##NAME##_wait_until(flag, SHMEM_CMP_GT, (T)4);                             \
        shmem_##NAME##_wait_until(flag, SHMEM_CMP_GE, (T)5);                             \
        shmem_##NAME##_wait_until(flag, SHMEM_CMP_LT, (T)6);                             \
        shmem_##NAME##_wait_until(flag, SHMEM_CMP_LE, (T)5);                             \
        CHECK(shmem_##NAME##_test(flag, SHMEM_CMP_EQ, (T)5) == 1);                       \
        CHECK(shmem_##NAME##_test(flag, SHMEM_CMP_EQ, (T)4) == 0);                       \
        CHECK(shmem_##NAME##_test(flag, SHMEM_CMP_GT, (T)5) == 0);                       \
        CHECK(shmem_##NAME##_test(flag, SHMEM_CMP_LT, (T)5) == 0);                       \
        shmem_barrier_all();                                                             \
        shmem_free(flag);                                                                \
    } while (0)

/* What was put before the fence is there when the flag is. */
static void ordered(int right)
{
    enum { ROUNDS = 2000, WORDS = 37 };
    long *data = shmem_calloc(WORDS, sizeof *data), *flag = shmem_calloc(2, sizeof *flag), out[WORDS];
    int left = (shmem_my_pe() + shmem_n_pes() - 1) % shmem_n_pes();
    for (long round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            out[i] = round * 100 + i;
        shmem_long_put(data, out, WORDS, right);
        shmem_fence();
        shmem_long_p(&flag[0], round, right);
        shmem_long_wait_until(&flag[0], SHMEM_CMP_GE, round);
        int right_data = 1;
        for (int i = 0; i < WORDS; i++)
            right_data &= data[i] == round * 100 + i;
        CHECK(right_data);
        shmem_long_p(&flag[1], round, left);
        shmem_long_wait_until(&flag[1], SHMEM_CMP_GE, round);
    }
    shmem_free(flag);
    shmem_free(data);
}

static void arrays(int me, int n)
{
    int *flags = shmem_calloc((size_t)n, sizeof *flags), *status = calloc((size_t)n, sizeof *status), *wanted = malloc((size_t)n * sizeof *wanted);
    size_t *indices = malloc((size_t)n * sizeof *indices), seen = 0;
    CHECK(shmem_int_test_any(flags, (size_t)n, NULL, SHMEM_CMP_NE, 0) == SIZE_MAX);
    CHECK(shmem_int_test_some(flags, (size_t)n, indices, NULL, SHMEM_CMP_NE, 0) == 0);
    CHECK(shmem_int_test_all(flags, (size_t)n, NULL, SHMEM_CMP_NE, 0) == 0);
    CHECK(shmem_int_test_all(flags, 0, NULL, SHMEM_CMP_NE, 0) == 1);
    shmem_barrier_all();
    for (int pe = 0; pe < n; pe++)
        shmem_int_p(&flags[me], me + 1, pe);
    /* One after the other, each once. */
    for (int i = 0; i < n; i++) {
        size_t at = shmem_int_wait_until_any(flags, (size_t)n, status, SHMEM_CMP_NE, 0);
        CHECK(at < (size_t)n && status[at] == 0 && flags[at] == (int)at + 1);
        status[at] = 1;
    }
    CHECK(shmem_int_wait_until_any(flags, (size_t)n, status, SHMEM_CMP_NE, 0) == SIZE_MAX);
    CHECK(shmem_int_wait_until_some(flags, (size_t)n, indices, status, SHMEM_CMP_NE, 0) == 0);
    memset(status, 0, (size_t)n * sizeof *status);
    while (seen < (size_t)n) {
        size_t found = shmem_int_wait_until_some(flags, (size_t)n, indices, status, SHMEM_CMP_GT, 0);
        CHECK(found > 0);
        for (size_t i = 0; i < found; i++)
            status[indices[i]] = 1;
        seen += found;
    }
    CHECK(seen == (size_t)n);
    /* All hold: each is found before one is found again. */
    memset(status, 0, (size_t)n * sizeof *status);
    for (int i = 0; i < n; i++)
        status[shmem_int_test_any(flags, (size_t)n, NULL, SHMEM_CMP_NE, 0)]++;
    for (int i = 0; i < n; i++)
        CHECK(status[i] == 1);
    shmem_int_wait_until_all(flags, (size_t)n, NULL, SHMEM_CMP_GE, 1);
    for (int i = 0; i < n; i++)
        wanted[i] = i + 1;
    shmem_int_wait_until_all_vector(flags, (size_t)n, NULL, SHMEM_CMP_EQ, wanted);
    CHECK(shmem_int_test_all_vector(flags, (size_t)n, NULL, SHMEM_CMP_EQ, wanted) == 1);
    wanted[n - 1] = 0;
    CHECK(shmem_int_test_all_vector(flags, (size_t)n, NULL, SHMEM_CMP_EQ, wanted) == 0);
    CHECK(shmem_int_test_any_vector(flags, (size_t)n, NULL, SHMEM_CMP_NE, wanted) == (size_t)n - 1);
    CHECK(shmem_int_wait_until_any_vector(flags, (size_t)n, NULL, SHMEM_CMP_NE, wanted) == (size_t)n - 1);
    CHECK(shmem_int_test_some_vector(flags, (size_t)n, indices, NULL, SHMEM_CMP_NE, wanted) == 1 && indices[0] == (size_t)n - 1);
    CHECK(shmem_int_wait_until_some_vector(flags, (size_t)n, indices, NULL, SHMEM_CMP_EQ, wanted) == (size_t)n - 1 || n == 1);
    shmem_barrier_all();
    shmem_free(flags);
    free(status);
    free(wanted);
    free(indices);
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n;
    TYPED(short, short);
    TYPED(int, int);
    TYPED(long, long);
    TYPED(long long, longlong);
    TYPED(unsigned short, ushort);
    TYPED(unsigned int, uint);
    TYPED(unsigned long, ulong);
    TYPED(unsigned long long, ulonglong);
    TYPED(int32_t, int32);
    TYPED(int64_t, int64);
    TYPED(uint32_t, uint32);
    TYPED(uint64_t, uint64);
    TYPED(size_t, size);
    TYPED(ptrdiff_t, ptrdiff);
    ordered(right);
    if (n > 1)
        arrays(me, n);
    return finish("waits");
}
