/* Teams: strided and two-dimensional splits, translation, contexts of teams, collectives of parts, stale handles. */
#include "check.h"

static long total;

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    shmem_team_t even = SHMEM_TEAM_WORLD, back, x, y, none;
    shmem_team_config_t config = {.num_contexts = 3};
    CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == n);
    CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, &config, SHMEM_TEAM_NUM_CONTEXTS, &even) == 0);
    CHECK((even != SHMEM_TEAM_INVALID) == (me % 2 == 0));
    if (even != SHMEM_TEAM_INVALID) {
        shmem_team_config_t found = {0};
        CHECK(shmem_team_my_pe(even) == me / 2 && shmem_team_n_pes(even) == (n + 1) / 2);
        CHECK(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &found) == 0 && found.num_contexts == 3);
        CHECK(shmem_team_translate_pe(even, (n - 1) / 2, SHMEM_TEAM_WORLD) == (n - 1) / 2 * 2);
        CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, even) == 0);
        CHECK(n < 2 || shmem_team_translate_pe(SHMEM_TEAM_WORLD, 1, even) == -1);
        CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, n, even) == -1);
    }
    /* The other way round. */
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, NULL, 0, &back) == 0);
    CHECK(shmem_team_my_pe(back) == n - 1 - me);
    /* What cannot be is refused everywhere. */
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n + 1, NULL, 0, &none) != 0 && none == SHMEM_TEAM_INVALID);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &none) != 0);
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &x, NULL, 0, &y) == 0);
    CHECK(shmem_team_my_pe(x) == me % 2 && shmem_team_my_pe(y) == me / 2);
    CHECK(shmem_team_n_pes(x) == (me / 2 * 2 + 1 < n ? 2 : 1) && shmem_team_n_pes(y) == (n - me % 2 + 1) / 2);
    long *one = shmem_malloc(sizeof *one), *sum = shmem_malloc(sizeof *sum);
    *one = me;
    CHECK(shmem_long_sum_reduce(y, sum, one, 1) == 0);
    long expected = 0;
    for (int pe = me % 2; pe < n; pe += 2)
        expected += pe;
    CHECK(*sum == expected);
    if (even != SHMEM_TEAM_INVALID) {
        CHECK(shmem_long_max_reduce(even, sum, one, 1) == 0 && *sum == (n - 1) / 2 * 2);
        CHECK(shmem_team_sync(even) == 0);
    }
    /* A context numbers PEs as its team does. */
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_team_t of_ctx = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_create_ctx(back, 0, &ctx) == 0 && ctx != SHMEM_CTX_INVALID);
    CHECK(shmem_ctx_get_team(ctx, &of_ctx) == 0 && of_ctx == back);
    shmem_ctx_long_atomic_add(ctx, &total, me + 1, n - 1);
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    CHECK(total == (me == 0 ? (long)n * (n + 1) / 2 : 0));
    shmem_ctx_destroy(ctx);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &of_ctx) != 0 && of_ctx == SHMEM_TEAM_INVALID);
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE, &ctx) == 0);
    shmem_ctx_fence(ctx);
    shmem_ctx_destroy(ctx);
    if (even != SHMEM_TEAM_INVALID)
        shmem_team_destroy(even);
    shmem_team_destroy(back);
    shmem_team_destroy(x);
    shmem_team_destroy(y);
    return finish("teams");
}
