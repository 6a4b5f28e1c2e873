/* A heap of size 0: the library starts and ends, and there is no memory to be had. */
#include "check.h"
#include <shmem.h>
#include <stdio.h>

int main(void)
{
    shmem_init();
    CHECK(shmem_malloc(1 << 20) == NULL);
    shmem_barrier_all();
    if (shmem_my_pe() == 0 && failures == 0)
        printf("empty_heap: ok\n");
    shmem_finalize();
    return failures != 0;
}
