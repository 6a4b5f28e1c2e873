/* PE 0 alone takes symmetric memory; the others make the call that the argument names. The job must not go on. */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

static long word, numbers[2];

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    shmem_init();
    if (shmem_my_pe() == 0)
        shmem_malloc(64);
    else if (!strcmp(what, "barrier"))
        shmem_barrier_all();
    else if (!strcmp(what, "sync"))
        shmem_sync_all();
    else if (!strcmp(what, "reduction"))
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, numbers, numbers + 1, 1);
    else if (!strcmp(what, "flag"))
        shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
    else if (!strcmp(what, "free_of_null"))
        shmem_free(NULL);
    shmem_finalize();
    printf("not found\n");
    return 0;
}
