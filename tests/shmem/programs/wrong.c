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
    shmem_barrier_all();
    shmem_finalize();
    printf("not found\n");
    return 0;
}
