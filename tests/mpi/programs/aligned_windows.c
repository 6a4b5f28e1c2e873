/* MPI_Win_allocate and MPI_Win_allocate_shared follow mpi_minimum_memory_alignment (MPI 12.2.2, 12.2.3): each rank's memory where
   it is its own, the first rank's where all lie one behind the other. Ranks may ask for different alignments. */
#include "check.h"
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

enum { BYTES = 100 };

static MPI_Info ask(size_t alignment, const char *noncontiguous)
{
    char value[32];
    MPI_Info info;
    MPI_Info_create(&info);
    snprintf(value, sizeof value, "%zu", alignment);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", value);
    MPI_Info_set(info, "alloc_shared_noncontig", noncontiguous);
    return info;
}

static int is_aligned(const void *address, size_t alignment)
{
    return (uintptr_t)address % alignment == 0;
}

/* The memory is that of the window: what a neighbour puts is read in it. */
static void try_allocate(int rank, int size, size_t alignment)
{
    int *base, mine = 1000 + rank;
    MPI_Win window;
    MPI_Info info = ask(rank % 2 ? alignment : 64, "false");
    MPI_Win_allocate(BYTES, sizeof(int), info, MPI_COMM_WORLD, &base, &window);
    CHECK(is_aligned(base, rank % 2 ? alignment : 64));
    MPI_Win_fence(0, window);
    MPI_Put(&mine, 1, MPI_INT, (rank + 1) % size, BYTES / sizeof(int) - 1, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    CHECK(base[BYTES / sizeof(int) - 1] == 1000 + (rank + size - 1) % size);
    MPI_Win_free(&window);
    MPI_Info_free(&info);
}

static void try_shared(int rank, int size, size_t alignment, const char *noncontiguous)
{
    int *base, *other, unit;
    MPI_Aint bytes;
    MPI_Win window;
    MPI_Info info = ask(alignment, noncontiguous);
    MPI_Win_allocate_shared(BYTES, sizeof(int), info, MPI_COMM_WORLD, &base, &window);
    CHECK(is_aligned(base, rank == 0 || noncontiguous[0] == 't' ? alignment : sizeof(int)));
    base[0] = rank;
    MPI_Win_fence(0, window);
    for (int peer = 0; peer < size; peer++) {
        MPI_Win_shared_query(window, peer, &bytes, &unit, &other);
        CHECK(bytes == BYTES && other[0] == peer);
        CHECK(is_aligned(other, peer == 0 || noncontiguous[0] == 't' ? alignment : sizeof(int)));
    }
    MPI_Win_shared_query(window, MPI_PROC_NULL, &bytes, &unit, &other);
    CHECK(other[0] == 0);
    MPI_Win_free(&window);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    int rank, size, here;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    for (size_t alignment = 64; alignment <= (size_t)4 << 20; alignment *= 4) {
        try_allocate(rank, size, alignment);
        if (here == size) {
            try_shared(rank, size, alignment, "false");
            try_shared(rank, size, alignment, "true");
        }
    }
    MPI_Comm_free(&node);
    return finish("aligned_windows");
}
