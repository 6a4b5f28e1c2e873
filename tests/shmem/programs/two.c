/* Built twice, with another NAME: two programs whose variables lie at the same places. The heap is one all the
   same; "static" uses a variable of the other program, which must end the job with a line. */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

const char name[] = NAME;
static long variable;

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    long *block = shmem_calloc(1, sizeof *block);
    shmem_long_p(block, 1 + me, (me + 1) % n);
    shmem_barrier_all();
    if (*block != 1 + (me + n - 1) % n)
        printf("the heap has %ld\n", *block);
    else if (me == 0)
        printf("heap: ok, %s\n", name);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "static") && me == 0)
        shmem_long_p(&variable, 1, 1);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
