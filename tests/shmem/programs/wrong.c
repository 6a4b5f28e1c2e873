/* One wrong call, chosen by the argument; it must end the job with a line, never a PE that was named. */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

static long variable;

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long on_stack = 0;
    if (!strcmp(what, "before_init"))
        shmem_barrier_all();
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    long *block = shmem_malloc(100 * sizeof *block);
    if (!strcmp(what, "sizes"))
        shmem_malloc(me == n - 1 ? 64 : 128);
    if (!strcmp(what, "order") && me == 0)
        shmem_malloc(64);
    if (!strcmp(what, "order") && me != 0)
        shmem_calloc(1, 128);
    if (!strcmp(what, "free_other")) {
        long *other = shmem_malloc(8);
        shmem_free(me == 0 ? block : other);
    }
    if (!strcmp(what, "alignment") && shmem_align(24, 64) == NULL)
        shmem_long_p(NULL, 1, 0);
    if (!strcmp(what, "exhausted") && shmem_malloc((size_t)1 << 40) == NULL)
        shmem_long_p(NULL, 1, 0);
    if (me == 0) {
        if (!strcmp(what, "negative_pe"))
            shmem_long_p(block, 1, -1);
        if (!strcmp(what, "pe_too_large"))
            shmem_long_atomic_inc(block, n);
        if (!strcmp(what, "stack"))
            shmem_long_p(&on_stack, 1, n - 1);
        if (!strcmp(what, "beyond"))
            shmem_putmem(block, block, (size_t)1 << 40, n - 1);
        if (!strcmp(what, "unaligned"))
            shmem_long_atomic_inc((long *)((char *)block + 4), n - 1);
        if (!strcmp(what, "comparison"))
            shmem_long_wait_until(block, 99, 1);
        if (!strcmp(what, "free_twice"))
            shmem_free(block + 1);
        if (!strcmp(what, "clear_free_lock")) {
            shmem_clear_lock(&variable);
        }
        if (!strcmp(what, "stale_context")) {
            shmem_ctx_t ctx;
            shmem_ctx_create(0, &ctx);
            shmem_ctx_destroy(ctx);
            shmem_ctx_long_p(ctx, block, 1, n - 1);
        }
        if (!strcmp(what, "stale_team"))
            shmem_team_sync((shmem_team_t)77);
        if (!strcmp(what, "predefined_team"))
            shmem_team_destroy(SHMEM_TEAM_WORLD);
        if (!strcmp(what, "signal_operation"))
            shmem_long_put_signal(block, block, 1, (uint64_t *)(block + 1), 1, 99, n - 1);
        if (!strcmp(what, "no_context"))
            shmem_ctx_quiet((shmem_ctx_t)99);
        if (!strcmp(what, "library_variable"))
            shmem_putmem(stdout, block, 8, n - 1);
        if (!strcmp(what, "null"))
            shmem_long_get(block, NULL, 1, n - 1);
        if (!strcmp(what, "end_of_heap"))
            shmem_long_put((long *)((char *)block + (512L << 20) - 8), block, 2, n - 1);
        if (!strcmp(what, "root"))
            shmem_long_broadcast(SHMEM_TEAM_WORLD, block, block, 1, n);
        if (!strcmp(what, "set"))
            shmem_barrier(0, 0, n + 1, &variable);
        if (!strcmp(what, "global_exit"))
            shmem_global_exit(7);
        if (!strcmp(what, "global_exit_0"))
            shmem_global_exit(0);
    }
    if (!strcmp(what, "after_finalize")) {
        shmem_finalize();
        shmem_long_p(block, 1, 0);
    }
    if (!strcmp(what, "destroyed_team")) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team);
        shmem_team_destroy(team);
        shmem_team_sync(team);
    }
    if (!strcmp(what, "init_twice"))
        shmem_init();
    if (!strcmp(what, "init_again")) {
        shmem_finalize();
        shmem_init();
    }
    if (!strcmp(what, "malloc_after_finalize")) {
        shmem_finalize();
        shmem_malloc(8);
    }
    shmem_barrier_all();
    shmem_finalize();
    printf("not found\n");
    return 0;
}
