/* What the OpenSHMEM programs share: a check that says PE, place and what was expected, and the end of a program.
 *
 * A program calls CHECK for every promise and ends with `return finish("name");`: PE 0 prints "name: ok" only when no PE has
 * found a failure. */
#ifndef TUTTI_SHMEM_CHECK_H
#define TUTTI_SHMEM_CHECK_H

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static inline void check(int holds, const char *what, int line)
{
    if (holds)
        return;
    fprintf(stderr, "PE %d, line %d: expected %s\n", shmem_my_pe(), line, what);
    failures++;
}

/* Whether a PE's memory can be mapped here: a job of several nodes has as many PEs on each, one behind the other. */
static inline int is_mapped(int pe)
{
    const char *nodes = getenv("TEST_NODES");
    int each = shmem_n_pes() / (nodes ? atoi(nodes) : 1);
    return pe / each == shmem_my_pe() / each;
}

#define CHECK(holds) check((holds) ? 1 : 0, #holds, __LINE__)

/* Puts alone, so that it works where collectives are what is tested. */
static inline int finish(const char *name)
{
    int *all = (int *)shmem_calloc((size_t)shmem_n_pes(), sizeof *all);
    int sum = 0;
    shmem_int_p(&all[shmem_my_pe()], failures, 0);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        for (int pe = 0; pe < shmem_n_pes(); pe++)
            sum += all[pe];
        if (sum == 0)
            printf("%s: ok\n", name);
        else
            printf("%s: %d failures\n", name, sum);
        fflush(stdout);
    }
    shmem_free(all);
    shmem_finalize();
    return failures != 0;
}

#endif
