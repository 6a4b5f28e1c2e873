/* Ends the library twice, as programs do that end by several ways. */
#include <shmem.h>
#include <stdio.h>

int main(void)
{
    shmem_init();
    int me = shmem_my_pe();
    shmem_finalize();
    shmem_finalize();
    printf("PE %d: ok\n", me);
    return 0;
}
