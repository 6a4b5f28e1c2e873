/* Heat in a plate with OpenSHMEM: each PE has a band of rows and puts its outer rows into its neighbours' memory, with a
 * signal that says which step they are of. Nobody receives anything. PE 0 compares the result with the same computed alone.
 * Usage: oshrun -n 4 halo_put [SIZE [STEPS]] */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A step for `rows` rows of `size` points from `old`, which has a row more on each side, to `new`. */
static void step(const double *old, double *new, int rows, int size)
{
    for (int row = 1; row <= rows; row++)
        for (int x = 1; x < size - 1; x++) {
            const double *at = old + (size_t)row * (size_t)size + x;
            new[(size_t)row * (size_t)size + (size_t)x] = (at[-1] + at[1] + at[-size] + at[size]) / 4;
        }
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 64, steps = argc > 2 ? atoi(argv[2]) : 200;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), inner = size - 2;
    if (inner < n || size > 4096 || steps < 1) {
        if (me == 0)
            fprintf(stderr, "usage: halo_put [SIZE: PEs + 2 to 4096 [STEPS]]\n");
        shmem_global_exit(2);
    }
    int first = 1 + (int)((long)inner * me / n), rows = 1 + (int)((long)inner * (me + 1) / n) - first;
    int above_rows = me > 0 ? first - 1 - (int)((long)inner * (me - 1) / n) : 0;
    size_t line = (size_t)size * sizeof(double), most = (size_t)(inner / n + 3) * line;
    /* Two copies of a band with a row more on each side, and for each side the step that its row is of. */
    double *band[2] = {shmem_calloc(1, most), shmem_calloc(1, most)};
    double *whole = shmem_calloc(1, line * (size_t)size);
    uint64_t *arrived = shmem_calloc(2, sizeof *arrived);
    if (!band[0] || !band[1] || !whole || !arrived)
        shmem_global_exit(1);
    if (me == 0)
        for (int x = 0; x < size; x++)
            band[0][x] = band[1][x] = 100; /* the upper edge is hot */

    for (int now = 0; now < steps; now++) {
        double *old = band[now % 2], *new = band[(now + 1) % 2];
        step(old, new, rows, size);
        /* A neighbour that has put step now + 1 has read our rows of step now: two copies are enough. */
        uint64_t done = (uint64_t)now + 1;
        if (me > 0)
            shmem_putmem_signal(new + (size_t)(above_rows + 1) * (size_t)size, new + size, line, &arrived[1], done,
                                SHMEM_SIGNAL_SET, me - 1);
        if (me < n - 1)
            shmem_putmem_signal(new, new + (size_t)rows * (size_t)size, line, &arrived[0], done, SHMEM_SIGNAL_SET,
                                me + 1);
        if (me > 0)
            shmem_signal_wait_until(&arrived[0], SHMEM_CMP_GE, done);
        if (me < n - 1)
            shmem_signal_wait_until(&arrived[1], SHMEM_CMP_GE, done);
    }

    shmem_putmem(whole + (size_t)first * (size_t)size, band[steps % 2] + size, line * (size_t)rows, 0);
    shmem_barrier_all();
    int wrong = 0;
    if (me == 0) {
        double *alone[2] = {calloc((size_t)size, line), calloc((size_t)size, line)};
        if (!alone[0] || !alone[1])
            shmem_global_exit(1);
        for (int x = 0; x < size; x++)
            whole[x] = alone[0][x] = alone[1][x] = 100;
        for (int now = 0; now < steps; now++)
            step(alone[now % 2], alone[(now + 1) % 2], inner, size);
        wrong = memcmp(whole, alone[steps % 2], line * (size_t)size) != 0;
        printf("halo_put: %d x %d, %d steps, %d PEs: %s\n", size, size, steps, n, wrong ? "WRONG" : "verified");
        free(alone[0]);
        free(alone[1]);
    }
    shmem_finalize();
    return wrong;
}
