/* Puts and gets of every form, into the heap, at every alignment and size class. */
#include "check.h"

#define TYPED(T, NAME)                                                                   \
    do {                                                                                 \
        T *there = shmem_malloc(16 * sizeof(T)), here[16], back[16];                     \
        memset(there, 0, 16 * sizeof(T));                                                \
        for (int i = 0; i < 16; i++)                                                     \
            here[i] = (T)(me * 3 + i), back[i] = 0;                                      \
        shmem_barrier_all();                                                             \
        shmem_##NAME##_put(there, here, 7, right);                                       \
        shmem_##NAME##_put_nbi(there + 7, here + 7, 1, right);                           \
        shmem_##NAME##_p(there + 8, here[8], right);                                     \
        shmem_ctx_##NAME##_put(SHMEM_CTX_DEFAULT, there + 9, here + 9, 7, right);        \
        shmem_barrier_all();                                                             \
        for (int i = 0; i < 16; i++)                                                     \
            CHECK(there[i] == (T)(left * 3 + i));                                        \
        shmem_##NAME##_get(back, there, 15, right);                                      \
        back[15] = shmem_##NAME##_g(there + 15, right);                                  \
        for (int i = 0; i < 16; i++)                                                     \
            CHECK(back[i] == here[i]);                                                   \
        shmem_##NAME##_get_nbi(back, there + 1, 2, right);                               \
        shmem_quiet();                                                                   \
        CHECK(back[0] == here[1] && back[1] == here[2]);                                 \
        shmem_barrier_all();                                                             \
        shmem_##NAME##_iput(there, here, 3, 2, 5, right);                                \
        shmem_barrier_all();                                                             \
        for (int i = 0; i < 5; i++)                                                      \
            CHECK(there[3 * i] == (T)(left * 3 + 2 * i));                                \
        shmem_##NAME##_iget(back, there, 2, 3, 5, right);                                \
        for (int i = 0; i < 5; i++)                                                      \
            CHECK(back[2 * i] == here[2 * i]);                                           \
        shmem_barrier_all();                                                             \
        shmem_free(there);                                                               \
    } while (0)

static void blocks(int me, int left, int right)
{
    enum { BYTES = 3 << 20 };
    unsigned char *there = shmem_malloc(BYTES), *here = malloc(BYTES);
    static const size_t sizes[] = {1, 2, 3, 8, 15, 63, 64, 65, 1000, 4096, 70000, BYTES / 2};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t skip = 0; skip < 9; skip += 3) {
            size_t size = sizes[s];
            memset(there, 0xee, size + 32);
            for (size_t i = 0; i < size; i++)
                here[i + 1] = (unsigned char)(i * 7 + (size_t)me);
            shmem_barrier_all();
            shmem_putmem(there + 8 + skip, here + 1, size, right);
            shmem_barrier_all();
            int right_bytes = there[7 + skip] == 0xee && there[8 + skip + size] == 0xee;
            for (size_t i = 0; i < size; i++)
                right_bytes &= there[8 + skip + i] == (unsigned char)(i * 7 + (size_t)left);
            CHECK(right_bytes);
            memset(here, 0, size + 1);
            shmem_getmem(here, there + 8 + skip, size, right);
            for (size_t i = 0; i < size; i++)
                right_bytes &= here[i] == (unsigned char)(i * 7 + (size_t)me);
            CHECK(right_bytes);
            shmem_barrier_all();
            /* Both at once, the put first. */
            for (size_t i = 0; i < size; i++)
                here[i] = (unsigned char)(i * 5 + (size_t)me);
            unsigned char *back = malloc(size);
            shmem_putmem_nbi(there + 8 + skip, here, size, right);
            shmem_getmem_nbi(back, there + 8 + skip, size, right);
            shmem_quiet();
            CHECK(!memcmp(back, here, size));
            free(back);
            shmem_barrier_all();
        }
    }
    shmem_free(there);
    free(here);
}

static void sizes(int me, int left, int right)
{
    struct wide { long long low, high; } *there = shmem_malloc(6 * sizeof *there);
    struct wide here[3] = {{me, 1}, {me, 2}, {me, 3}};
    shmem_barrier_all();
    shmem_put128(there, here, 2, right);
    shmem_iput128(there + 2, here, 2, 1, 2, right);
    shmem_barrier_all();
    CHECK(there[0].low == left && there[1].high == 2 && there[2].high == 1 && there[4].high == 2);
    int *words = (int *)there;
    shmem_barrier_all();
    shmem_put32(words, here, 1, right);
    shmem_put64_nbi(words + 2, here, 1, right);
    shmem_put8(words + 4, here, 1, right);
    shmem_put16(words + 5, here, 1, right);
    shmem_barrier_all();
    CHECK(words[0] == left && words[2] == left && (words[4] & 0xff) == left && (words[5] & 0xffff) == left);
    shmem_barrier_all();
    shmem_ibput32(words, here, 3, 2, 2, 3, right);
    shmem_barrier_all();
    CHECK(words[0] == left && words[3] == 1 && words[6] == left && words[7] == 0);
    shmem_free(there);
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
    TYPED(float, float);
    TYPED(double, double);
    TYPED(long double, longdouble);
    TYPED(char, char);
    TYPED(signed char, schar);
    TYPED(short, short);
    TYPED(int, int);
    TYPED(long, long);
    TYPED(long long, longlong);
    TYPED(unsigned char, uchar);
    TYPED(unsigned short, ushort);
    TYPED(unsigned int, uint);
    TYPED(unsigned long, ulong);
    TYPED(unsigned long long, ulonglong);
    TYPED(int8_t, int8);
    TYPED(int16_t, int16);
    TYPED(int32_t, int32);
    TYPED(int64_t, int64);
    TYPED(uint8_t, uint8);
    TYPED(uint16_t, uint16);
    TYPED(uint32_t, uint32);
    TYPED(uint64_t, uint64);
    TYPED(size_t, size);
    TYPED(ptrdiff_t, ptrdiff);
    blocks(me, left, right);
    sizes(me, left, right);
    return finish("rma");
}
