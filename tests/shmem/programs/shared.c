/* SHMEM_TEAM_SHARED has the PEs whose heap is reached by addresses: those of the own node. Its operations are among them alone. */
#include "check.h"
#include <shmem.h>
#include <stdio.h>

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    int near = shmem_team_n_pes(SHMEM_TEAM_SHARED), mine = shmem_team_my_pe(SHMEM_TEAM_SHARED);
    int *x = shmem_malloc(sizeof *x), *sum = shmem_malloc(sizeof *sum), one = 1;
    *x = me;
    shmem_barrier_all();
    int reached = 0;
    for (int pe = 0; pe < pes; pe++) {
        int number = shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_SHARED);
        int *there = shmem_ptr(x, pe);
        CHECK((number >= 0) == (there != NULL));
        if (there) {
            CHECK(*there == pe);
            CHECK(shmem_team_translate_pe(SHMEM_TEAM_SHARED, number, SHMEM_TEAM_WORLD) == pe);
            CHECK(shmem_team_ptr(SHMEM_TEAM_SHARED, x, number) == there);
            reached++;
        }
    }
    CHECK(reached == near && mine >= 0 && mine < near);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_SHARED, mine, SHMEM_TEAM_WORLD) == me);
    shmem_barrier_all();
    *x = one;
    shmem_team_sync(SHMEM_TEAM_SHARED);
    shmem_int_sum_reduce(SHMEM_TEAM_SHARED, sum, x, 1);
    CHECK(*sum == near);
    /* A part of it, and a context on it, whose PEs are counted in it. */
    shmem_team_t part;
    shmem_team_split_strided(SHMEM_TEAM_SHARED, 0, 1, near, NULL, 0, &part);
    CHECK(part != SHMEM_TEAM_INVALID && shmem_team_n_pes(part) == near);
    shmem_ctx_t ctx;
    *x = -1;
    shmem_barrier_all();
    CHECK(shmem_team_create_ctx(SHMEM_TEAM_SHARED, 0, &ctx) == 0);
    int next = (mine + 1) % near;
    shmem_ctx_int_p(ctx, x, me, next);
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    int before = (mine + near - 1) % near;
    CHECK(*x == shmem_team_translate_pe(SHMEM_TEAM_SHARED, before, SHMEM_TEAM_WORLD));
    shmem_ctx_destroy(ctx);
    shmem_team_destroy(part);
    shmem_free(sum);
    shmem_free(x);
    shmem_barrier_all();
    return finish("shared");
}
