/* storm WHAT FOLDER: all ranks add 1 to counters of all ranks until FOLDER/go is there.
 *
 * windows: by MPI_Fetch_and_op and MPI_Accumulate
 * shmem: by shmem_long_atomic_fetch_add_nbi and shmem_long_atomic_inc
 *
 * At the end each counter holds what was issued to it, and what was fetched of it are all its numbers, each
 * once. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So many of each rank are fetched too, and as many are not; a batch of operations is under way at a time. */
enum { COUNTERS = 4, BATCH = 24 };

static int rank, size;
static long *counters;
static MPI_Win win;

static void fetch_and_add(int target, int counter, long *found) {
    static const long one = 1;
    if (win != MPI_WIN_NULL)
        MPI_Fetch_and_op(&one, found, MPI_LONG, target, counter, MPI_SUM, win);
    else
        shmem_long_atomic_fetch_add_nbi(found, &counters[counter], 1, target);
}

static void add(int target, int counter) {
    static const long one = 1;
    if (win != MPI_WIN_NULL)
        MPI_Accumulate(&one, 1, MPI_LONG, target, counter, 1, MPI_LONG, MPI_SUM, win);
    else
        shmem_long_atomic_inc(&counters[counter], target);
}

static void flush(void) {
    if (win != MPI_WIN_NULL)
        MPI_Win_flush_all(win);
    else
        shmem_quiet();
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "windows";
    char go[4096];
    snprintf(go, sizeof go, "%s/go", argv[argc - 1]);
    win = MPI_WIN_NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Aint bytes = 2 * COUNTERS * sizeof *counters;
    if (strcmp(what, "windows") == 0) {
        MPI_Win_allocate(bytes, sizeof *counters, MPI_INFO_NULL, MPI_COMM_WORLD, &counters, &win);
        memset(counters, 0, bytes);
        MPI_Win_lock_all(0, win);
    } else {
        shmem_init();
        counters = shmem_calloc(2 * COUNTERS, sizeof *counters);
    }
    /* By target and counter: how many were issued, and the sum of what was fetched. */
    long *issued = calloc(2 * COUNTERS * size, sizeof *issued);
    long *fetched = calloc(COUNTERS * size, sizeof *fetched);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("snapshot: up");
    fflush(stdout);
    for (unsigned at = 7 * rank; access(go, F_OK) != 0;) {
        long found[BATCH];
        int from[BATCH];
        for (int i = 0; i < BATCH; i++, at++) {
            int target = at % size, counter = at / size % COUNTERS;
            from[i] = target * COUNTERS + counter;
            fetch_and_add(target, counter, &found[i]);
            issued[2 * target * COUNTERS + counter]++;
            add(target, COUNTERS + counter);
            issued[2 * target * COUNTERS + COUNTERS + counter]++;
        }
        flush();
        for (int i = 0; i < BATCH; i++)
            fetched[from[i]] += found[i];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, issued, 2 * COUNTERS * size, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, fetched, COUNTERS * size, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (win != MPI_WIN_NULL)
        MPI_Win_sync(win);
    int wrong = 0;
    long sum = 0;
    for (int i = 0; i < 2 * COUNTERS; i++) {
        long expected = issued[2 * rank * COUNTERS + i], numbers = counters[i] * (counters[i] - 1) / 2;
        sum += expected;
        if (counters[i] != expected) {
            fprintf(stderr, "rank %d: counter %d is %ld, %ld were issued\n", rank, i, counters[i], expected);
            wrong = 1;
        }
        if (i < COUNTERS && fetched[rank * COUNTERS + i] != numbers) {
            fprintf(stderr, "rank %d: counter %d was fetched %ld in all, not %ld\n", rank, i,
                    fetched[rank * COUNTERS + i], numbers);
            wrong = 1;
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && !wrong)
        printf("storm: all right\n");
    if (rank == 0)
        printf("storm: %ld operations\n", sum);
    if (win != MPI_WIN_NULL) {
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    } else {
        shmem_free(counters);
        shmem_finalize();
    }
    free(issued);
    free(fetched);
    MPI_Finalize();
    return wrong;
}
