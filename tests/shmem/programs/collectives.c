/* Collective operations of teams: all kinds, in place too, over the world and over a part. */
#include "check.h"

#define MOST 16

static void over(shmem_team_t team)
{
    int me = shmem_team_my_pe(team), n = shmem_team_n_pes(team);
    long *in = shmem_malloc(MOST * 64 * sizeof *in), *out = shmem_malloc(MOST * 64 * sizeof *out);
    for (int root = 0; root < n; root++) {
        for (int i = 0; i < 50; i++)
            in[i] = me * 100 + i, out[i] = -1;
        shmem_team_sync(team);
        CHECK(shmem_long_broadcast(team, out, in, 50, root) == 0);
        for (int i = 0; i < 50; i++)
            CHECK(out[i] == root * 100 + i);
        CHECK(shmem_broadcastmem(team, in, in, 8, root) == 0 && in[0] == root * 100);
    }
    for (int i = 0; i < 3; i++)
        in[i] = me * 10 + i;
    shmem_team_sync(team);
    CHECK(shmem_long_fcollect(team, out, in, 3) == 0);
    for (int pe = 0; pe < n; pe++)
        CHECK(out[3 * pe] == pe * 10 && out[3 * pe + 2] == pe * 10 + 2);
    shmem_team_sync(team);
    for (int i = 0; i < me + 1; i++)
        in[i] = me;
    CHECK(shmem_long_collect(team, out, in, (size_t)me + 1) == 0);
    for (int pe = 0, at = 0; pe < n; pe++)
        for (int i = 0; i < pe + 1; i++, at++)
            CHECK(out[at] == pe);
    shmem_team_sync(team);
    for (int i = 0; i < 2 * n; i++)
        in[i] = me * 100 + i;
    CHECK(shmem_long_alltoall(team, out, in, 2) == 0);
    for (int pe = 0; pe < n; pe++)
        CHECK(out[2 * pe] == pe * 100 + 2 * me && out[2 * pe + 1] == pe * 100 + 2 * me + 1);
    shmem_team_sync(team);
    for (int i = 0; i < 3 * 2 * n; i++)
        in[i] = me * 100 + i, out[i] = -1;
    shmem_team_sync(team);
    CHECK(shmem_long_alltoalls(team, out, in, 2, 3, 2) == 0);
    for (int pe = 0; pe < n; pe++)
        CHECK(out[2 * (2 * pe)] == pe * 100 + 3 * (2 * me) && out[2 * (2 * pe + 1)] == pe * 100 + 3 * (2 * me + 1) && out[4 * pe + 1] == -1);
    shmem_team_sync(team);
    shmem_free(out);
    shmem_free(in);
}

#define REDUCE(T, NAME, OP, VALUE, EXPECTED)                                             \
    do {                                                                                 \
        T *in = shmem_malloc(40 * sizeof(T)), *out = shmem_malloc(40 * sizeof(T));       \
        for (int i = 0; i < 40; i++)                                                     \
            in[i] = (T)(VALUE);                                                          \
        CHECK(shmem_##NAME##_##OP##_reduce(SHMEM_TEAM_WORLD, out, in, 40) == 0);         \
        for (int i = 0; i < 40; i++)                                                     \
            CHECK(out[i] == (T)(EXPECTED));                                              \
        CHECK(shmem_##NAME##_##OP##_reduce(SHMEM_TEAM_WORLD, in, in, 40) == 0);          \
        CHECK(in[39] == out[39]);                                                        \
        shmem_free(out);                                                                 \
        shmem_free(in);                                                                  \
    } while (0)

#define SUMS(T, NAME)                                                                    \
    REDUCE(T, NAME, sum, me + 1, n *(n + 1) / 2);                                        \
    REDUCE(T, NAME, prod, me % 2 + 1, 1 << n / 2)
#define ORDERED(T, NAME)                                                                 \
    SUMS(T, NAME);                                                                       \
    REDUCE(T, NAME, max, me + 1, n);                                                     \
    REDUCE(T, NAME, min, me + 1, 1)
#define LOGICAL(T, NAME)                                                                 \
    ORDERED(T, NAME);                                                                    \
    REDUCE(T, NAME, and, me == 0 ? 6 : 7, 6);                                            \
    REDUCE(T, NAME, or, 1 << me % 6, (1 << (n < 6 ? n : 6)) - 1);                        \
    REDUCE(T, NAME, xor, 5, n % 2 ? 5 : 0)

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    over(SHMEM_TEAM_WORLD);
    over(SHMEM_TEAM_SHARED);
    ORDERED(char, char);
    ORDERED(signed char, schar);
    ORDERED(short, short);
    ORDERED(int, int);
    ORDERED(long, long);
    ORDERED(long long, longlong);
    ORDERED(ptrdiff_t, ptrdiff);
    ORDERED(float, float);
    ORDERED(double, double);
    ORDERED(long double, longdouble);
    LOGICAL(unsigned char, uchar);
    LOGICAL(unsigned short, ushort);
    LOGICAL(unsigned int, uint);
    LOGICAL(unsigned long, ulong);
    LOGICAL(unsigned long long, ulonglong);
    LOGICAL(int8_t, int8);
    LOGICAL(int16_t, int16);
    LOGICAL(int32_t, int32);
    LOGICAL(int64_t, int64);
    LOGICAL(uint8_t, uint8);
    LOGICAL(uint16_t, uint16);
    LOGICAL(uint32_t, uint32);
    LOGICAL(uint64_t, uint64);
    LOGICAL(size_t, size);
    SUMS(double _Complex, complexd);
    SUMS(float _Complex, complexf);
    long *in = shmem_malloc(sizeof *in), *out = shmem_malloc(sizeof *out);
    *in = me + 1;
    CHECK(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, out, in, 1) == 0 && *out == (me + 1) * (me + 2) / 2);
    CHECK(shmem_long_sum_exscan(SHMEM_TEAM_WORLD, out, in, 1) == 0 && *out == me * (me + 1) / 2);
    return finish("collectives");
}
