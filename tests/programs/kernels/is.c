/* IS: whole numbers are sorted by buckets. The ranks agree on borders from a histogram of all keys, exchange the keys, and sort
 * their own. What comes out must be in order over all ranks, and be what went in.
 *
 * is [KEYS_PER_RANK], default 50000. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 1024, SHIFT = 22 };

static uint32_t key(uint32_t n)
{
    n ^= n >> 16;
    n *= 0x7feb352du;
    n ^= n >> 15;
    n *= 0x846ca68bu;
    /* Two draws: small keys are rarer than large ones. */
    uint32_t other = n ^ (n >> 16) ^ 0x5bd1e995u;
    return n > other ? n : other;
}

static int before(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* A sum that does not depend on the order. */
static uint64_t sum(const uint32_t *keys, int n)
{
    uint64_t total = 0;
    for (int i = 0; i < n; i++)
        total += (uint64_t)keys[i] * keys[i] + 1;
    return total;
}

/* Bucket -> rank, so that all get about as many keys. */
static void share(const int *histogram, int size, int *owner)
{
    long long total = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++)
        total += histogram[i];
    for (int i = 0; i < BUCKETS; i++) {
        owner[i] = total ? (int)(seen * size / total) : 0;
        seen += histogram[i];
    }
}

int main(int argc, char **argv)
{
    int rank, size, histogram[BUCKETS] = {0}, all[BUCKETS], owner[BUCKETS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n = argc > 1 ? atoi(argv[1]) : 50000, arrived = 0;
    int *out = calloc((size_t)size * 5, sizeof(int)), *out_at = out + size, *in = out_at + size, *in_at = in + size;
    int *next = in_at + size;
    uint32_t *keys = malloc(sizeof *keys * (size_t)n), *sorted = malloc(sizeof *sorted * (size_t)n);
    for (int i = 0; i < n; i++) {
        keys[i] = key((uint32_t)rank * (uint32_t)n + (uint32_t)i);
        histogram[keys[i] >> SHIFT]++;
    }
    MPI_Allreduce(histogram, all, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    share(all, size, owner);
    for (int i = 0; i < BUCKETS; i++)
        out[owner[i]] += histogram[i];
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        out_at[i] = i ? out_at[i - 1] + out[i - 1] : 0;
        in_at[i] = arrived;
        next[i] = out_at[i];
        arrived += in[i];
    }
    for (int i = 0; i < n; i++)
        sorted[next[owner[keys[i] >> SHIFT]]++] = keys[i];
    uint32_t *mine = malloc(sizeof *mine * (size_t)(arrived + 1));
    MPI_Alltoallv(sorted, out, out_at, MPI_UINT32_T, mine, in, in_at, MPI_UINT32_T, MPI_COMM_WORLD);
    qsort(mine, (size_t)arrived, sizeof *mine, before);

    /* The largest key of all ranks before this one is no larger than the first one here. */
    uint32_t largest = arrived ? mine[arrived - 1] : 0, earlier = 0;
    MPI_Exscan(&largest, &earlier, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
    int wrong = rank > 0 && arrived && earlier > mine[0];
    for (int i = 1; i < arrived; i++)
        wrong += mine[i - 1] > mine[i];
    uint64_t sums[2] = {sum(keys, n), sum(mine, arrived)}, totals[2];
    MPI_Allreduce(sums, totals, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int right = wrong == 0 && totals[0] == totals[1];
    if (rank == 0)
        printf("is: %lld keys: %s\n", (long long)n * size, right ? "verified" : "WRONG");
    free(out);
    free(keys);
    free(sorted);
    free(mine);
    MPI_Finalize();
    return !right;
}
