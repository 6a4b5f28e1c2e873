/* Prints by buffers of C, and ends the job with a status. */
#include <shmem.h>
#include <stdio.h>

int main(void)
{
    /* A buffer of its own: nothing leaves by itself. */
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    shmem_init();
    if (shmem_my_pe() == 0) {
        printf("the reason\n");
        shmem_global_exit(5);
    }
    shmem_barrier_all();
    return 0;
}
