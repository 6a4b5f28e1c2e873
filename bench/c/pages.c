/*
 * Memory from the system and back, by size: tutti_alloc and tutti_free, mmap and munmap, sbrk. Each page is written once, so that it
 * is there.
 *
 *   pages [--budget-ms 50]
 */
#define _GNU_SOURCE
#include "bench.h"

#include <sys/mman.h>
#include <tutti.h>
#include <mpi.h>
#include <unistd.h>

enum { PAGE = 4096, LEAST = 32 };

static void *by_tutti(size_t bytes) {
    return tutti_alloc(bytes);
}

static int back_to_tutti(void *memory, size_t bytes) {
    (void)bytes;
    return tutti_free(memory);
}

static void *by_mmap(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void *by_sbrk(size_t bytes) {
    void *memory = sbrk((intptr_t)bytes);
    return memory == (void *)-1 ? NULL : memory;
}

static int back_by_sbrk(void *memory, size_t bytes) {
    (void)memory;
    return sbrk(-(intptr_t)bytes) == (void *)-1;
}

static void measure(const char *name, void *(*get)(size_t), int (*give)(void *, size_t), size_t bytes, double budget_ns) {
    struct samples got = samples_new(), given = samples_new();
    double begin = now_ns();
    while (got.count < LEAST || (got.count < MAX_BATCHES && now_ns() - begin < budget_ns)) {
        double start = now_ns();
        volatile char *memory = get(bytes);
        if (memory == NULL) {
            fprintf(stderr, "pages: %s has no %zu bytes\n", name, bytes);
            exit(1);
        }
        for (size_t at = 0; at < bytes; at += PAGE) {
            memory[at] = 1;
        }
        double there = now_ns();
        if (give((void *)memory, bytes) != 0) {
            fprintf(stderr, "pages: %s does not take %zu bytes back\n", name, bytes);
            exit(1);
        }
        samples_add(&got, there - start);
        samples_add(&given, now_ns() - there);
    }
    printf("pages what=%s bytes=%zu alloc_ns=%.0f free_ns=%.0f n=%zu\n", name, bytes, samples_quantile(&got, 0.5),
           samples_quantile(&given, 0.5), got.count);
    free(got.ns);
    free(given.ns);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    double budget_ns = option_number(argc, argv, "--budget-ms", 50) * 1e6;
    for (size_t bytes = PAGE; bytes <= 256 * PAGE; bytes *= 4) {
        measure("tutti", by_tutti, back_to_tutti, bytes, budget_ns);
        measure("mmap", by_mmap, munmap, bytes, budget_ns);
        measure("sbrk", by_sbrk, back_by_sbrk, bytes, budget_ns);
    }
    MPI_Finalize();
    return 0;
}
