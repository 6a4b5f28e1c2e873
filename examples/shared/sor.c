/* Successive over-relaxation on a square grid, red and black points in turn. A process has a band of rows; between two
 * colours all meet. The boundary is hot on one side.
 *
 *     tutticc -O2 -o sor sor.c
 *     tutti run -N 4 -n 4 ./sor 256 20 4          # points of a side, rounds, processes */
#include <stdio.h>
#include <string.h>
#include <tutti/parmacs.h>

MAIN_ENV

struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next;
    double *grid;
};

static struct shared *all;
static long side = 256, rounds = 20, processes = 1;

static void relax(long first, long end, long colour) {
    const double omega = 1.5;
    for (long i = first; i < end; i++)
        for (long j = 1 + (i + colour) % 2; j < side - 1; j += 2) {
            double *at = all->grid + i * side + j;
            *at += omega * ((at[-1] + at[1] + at[-side] + at[side]) / 4 - *at);
        }
}

static void run(void) {
    long me;
    LOCK(all->lock)
    me = all->next++;
    UNLOCK(all->lock)
    long first = 1 + me * (side - 2) / processes, end = 1 + (me + 1) * (side - 2) / processes;
    for (long round = 0; round < 2 * rounds; round++) {
        relax(first, end, round % 2);
        BARRIER(all->barrier, processes)
    }
}

int main(int argc, char **argv) {
    unsigned long begin, end, sum = 14695981039346656037ul, bits;
    if (argc > 1)
        side = atol(argv[1]);
    if (argc > 2)
        rounds = atol(argv[2]);
    if (argc > 3)
        processes = atol(argv[3]);
    if (side < 3 || rounds < 0 || processes < 1) {
        fprintf(stderr, "usage: sor SIDE ROUNDS PROCESSES\n");
        return 2;
    }
    MAIN_INITENV()
    all = G_MALLOC(sizeof *all);
    all->grid = G_MALLOC((size_t)(side * side) * sizeof(double));
    all->next = 0;
    LOCKINIT(all->lock);
    BARINIT(all->barrier, processes);
    for (long i = 0; i < side * side; i++)
        all->grid[i] = i < side ? 100 : 0;
    CLOCK(begin);
    CREATE(run, processes);
    WAIT_FOR_END(processes);
    CLOCK(end);
    for (long i = 0; i < side * side; i++) {
        memcpy(&bits, all->grid + i, sizeof bits);
        sum = (sum ^ bits) * 1099511628211ul;
    }
    printf("sor: %ld x %ld, %ld rounds, %ld processes: %016lx\n", side, side, rounds, processes, sum);
    fprintf(stderr, "sor: %lu us\n", end - begin);
    MAIN_END;
}
