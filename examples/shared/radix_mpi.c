/* Radix sort as in radix.c.in, by messages: each rank has its part of the keys alone. In each pass every rank counts the
 * digits of its part and sorts it by them; all learn all counts, so each knows which run of which rank goes where; the keys
 * go by one MPI_Alltoallv, and each rank puts the runs that it gets in their places.
 *
 *     mpicc -O2 -o radix_mpi radix_mpi.c
 *     mpiexec -n 4 ./radix_mpi -n262144 -r1024 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long count = 262144, radix = 1024;
static int me, processes, bits, passes;
/* By rank: counts of digits in its part. */
static long *counts;
/* By rank: keys for it, and from it, and where they begin. */
static int *to_each, *to_place, *from_each, *from_place;

/* Where the part of a rank begins. */
static long first_of(long rank) {
    return rank * count / processes;
}

static void *memory(size_t bytes) {
    void *found = malloc(bytes > 0 ? bytes : 1);
    if (found == NULL) {
        fprintf(stderr, "radix: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

/* How many keys of a run [begin, end) are in the part of a rank. */
static long inside(long begin, long end, int rank) {
    long first = first_of(rank), last = first_of(rank + 1);
    begin = begin < first ? first : begin;
    end = end < last ? end : last;
    return end > begin ? end - begin : 0;
}

static void pass(int shift, unsigned *keys, unsigned *sorted, unsigned *arrived) {
    long own = first_of(me + 1) - first_of(me), mask = radix - 1, *mine = counts + me * radix, place = 0;
    long *next = memory((size_t)radix * sizeof *next);
    memset(mine, 0, (size_t)radix * sizeof *mine);
    for (long i = 0; i < own; i++)
        mine[keys[i] >> shift & mask]++;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_LONG, counts, (int)radix, MPI_LONG, MPI_COMM_WORLD);
    for (long digit = 0; digit < radix; digit++) {
        next[digit] = place;
        place += mine[digit];
    }
    for (long i = 0; i < own; i++)
        sorted[next[keys[i] >> shift & mask]++] = keys[i];
    free(next);
    /* Runs in the order of their places: by digit, then by rank. */
    memset(to_each, 0, (size_t)processes * sizeof *to_each);
    memset(from_each, 0, (size_t)processes * sizeof *from_each);
    place = 0;
    for (long digit = 0; digit < radix; digit++)
        for (int from = 0; from < processes; from++) {
            long end = place + counts[from * radix + digit];
            for (int to = 0; from == me && to < processes; to++)
                to_each[to] += (int)inside(place, end, to);
            from_each[from] += (int)inside(place, end, me);
            place = end;
        }
    for (int rank = 0, to = 0, from = 0; rank < processes; rank++) {
        to_place[rank] = to;
        from_place[rank] = from;
        to += to_each[rank];
        from += from_each[rank];
    }
    MPI_Alltoallv(sorted, to_each, to_place, MPI_UNSIGNED, arrived, from_each, from_place, MPI_UNSIGNED, MPI_COMM_WORLD);
    place = 0;
    for (long digit = 0; digit < radix; digit++)
        for (int from = 0; from < processes; from++) {
            long end = place + counts[from * radix + digit], found = inside(place, end, me);
            memcpy(keys, arrived + from_place[from], (size_t)found * sizeof *keys);
            keys += found;
            from_place[from] += (int)found;
            place = end;
        }
}

/* Whether rank 0, which has all keys, finds them in order, and none lost. */
static int is_right(const unsigned *all, unsigned long sum) {
    unsigned long found = 0, order = 14695981039346656037ul;
    for (long i = 0; i < count; i++) {
        found += all[i];
        order = (order ^ all[i]) * 1099511628211ul;
        if (i > 0 && all[i - 1] > all[i]) {
            printf("radix: key %ld is out of order\n", i);
            return 0;
        }
    }
    printf("radix: %ld keys, radix %ld, %d processes: %s, %016lx\n", count, radix, processes,
           found == sum ? "sorted" : "KEYS ARE LOST", order);
    return found == sum;
}

int main(int argc, char **argv) {
    unsigned long seed = 1, sum = 0;
    int status = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    for (int i = 1; i < argc; i++) {
        long value = strlen(argv[i]) > 2 ? atol(argv[i] + 2) : 0;
        switch (argv[i][0] == '-' ? argv[i][1] : 0) {
        case 'n': count = value; break;
        case 'r': radix = value; break;
        default: count = 0;
        }
    }
    for (bits = 0; 1l << bits < radix; bits++)
        ;
    if (count < 1 || 1l << bits != radix || bits < 1) {
        if (me == 0)
            fprintf(stderr, "usage: radix_mpi -nKEYS -rRADIX; the radix must be a power of two\n");
        MPI_Finalize();
        return 2;
    }
    passes = (20 + bits - 1) / bits;
    long first = first_of(me), own = first_of(me + 1) - first;
    unsigned *keys = memory((size_t)own * sizeof *keys), *sorted = memory((size_t)own * sizeof *keys);
    unsigned *arrived = memory((size_t)own * sizeof *keys), *all = NULL;
    counts = memory((size_t)(processes * radix) * sizeof *counts);
    to_each = memory((size_t)processes * sizeof *to_each);
    to_place = memory((size_t)processes * sizeof *to_place);
    from_each = memory((size_t)processes * sizeof *from_each);
    from_place = memory((size_t)processes * sizeof *from_place);
    for (long i = 0; i < count; i++) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        unsigned key = (unsigned)(seed >> 44);
        if (i >= first && i < first + own)
            keys[i - first] = key;
        sum += key;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < passes; i++)
        pass(i * bits, keys, sorted, arrived);
    MPI_Barrier(MPI_COMM_WORLD);
    double end = MPI_Wtime();
    if (me == 0)
        all = memory((size_t)count * sizeof *all);
    for (int rank = 0; rank < processes; rank++) {
        from_place[rank] = (int)first_of(rank);
        from_each[rank] = (int)(first_of(rank + 1) - first_of(rank));
    }
    MPI_Gatherv(keys, (int)own, MPI_UNSIGNED, all, from_each, from_place, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (me == 0) {
        status = is_right(all, sum) ? 0 : 1;
        fprintf(stderr, "radix: %.0f us\n", (end - begin) * 1e6);
    }
    free(all);
    free(keys);
    free(sorted);
    free(arrived);
    free(counts);
    free(to_each);
    free(to_place);
    free(from_each);
    free(from_place);
    MPI_Finalize();
    return status;
}
