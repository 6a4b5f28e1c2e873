/*
 * Instructions of single calls of OpenSHMEM, as instructions.c has those of MPI.
 *
 *   shmem_calls [--calls 40]
 *
 * Two PEs on one node; PE 1 is in a barrier. The figure is the median, less that of an empty section.
 */
#include "bench.h"
#include "traced.h"
#include <shmem.h>

enum { CALLS_MAX = 1000, WARM_UP = 100 };

static long *words, value;

static void nothing(void) {
    COUNTED((void)0);
}

static void put(void) {
    COUNTED(shmem_long_p(words, 42, 1));
    shmem_quiet();
}

static void put_quiet(void) {
    COUNTED(shmem_long_p(words, 42, 1); shmem_quiet());
}

static void get(void) {
    COUNTED(value = shmem_long_g(words, 1));
}

static void add(void) {
    COUNTED(shmem_long_atomic_add(words, 1, 1));
    shmem_quiet();
}

/* A call by its name. */
struct call {
    const char *name;
    void (*counted)(void);
};

static const struct call ALL[] = {
    {"nothing", nothing},
    {"shmem_long_p", put},
    {"shmem_long_p_quiet", put_quiet},
    {"shmem_long_g", get},
    {"shmem_long_atomic_add", add},
};

static void fail(const char *what) {
    fprintf(stderr, "shmem_calls: %s\n", what);
    shmem_global_exit(2);
}

static void count_all(int calls) {
    double empty = 0;
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        struct samples samples = samples_new();
        for (int n = 0; n < calls + WARM_UP; n++) {
            ALL[i].counted();
            if (n >= WARM_UP) {
                samples_add(&samples, (double)traced->count);
            }
        }
        double median = samples_quantile(&samples, 0.5);
        if (ALL[i].counted == nothing) {
            empty = median;
        } else {
            printf("shmem_calls call=%s median_ins=%.0f p99_ins=%.0f n=%zu\n", ALL[i].name, median - empty,
                   samples_quantile(&samples, 0.99) - empty, samples.count);
        }
        free(samples.ns);
    }
}

int main(int argc, char **argv) {
    pid_t tracer = start_tracer();
    shmem_init();
    int calls = (int)option_number(argc, argv, "--calls", 40);
    if (tracer < 0 || shmem_n_pes() != 2 || calls < 1 || calls > CALLS_MAX) {
        fail("needs 2 PEs, 1 to 1000 calls, and a child");
    }
    words = shmem_calloc(1, sizeof *words);
    shmem_barrier_all();
    if (shmem_my_pe() != 0) {
        need_no_tracer();
    } else if (be_traced(tracer)) {
        count_all(calls);
    } else {
        fail("this process may not be traced");
    }
    shmem_barrier_all();
    shmem_free(words);
    shmem_finalize();
    return value < 0;
}
