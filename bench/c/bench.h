/*
 * What the measuring programs share: a clock, batches with their median and p99, options, and the line in which a
 * figure is printed.
 *
 * One figure is one line of standard output: the program's name, then key=value pairs. Keys that end in a unit
 * (_ns, _us, _gbs, _mps) are figures, `n` is the number of batches, all others say what was measured.
 */
#ifndef TUTTI_BENCH_H
#define TUTTI_BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Monotonic time in nanoseconds. */
static inline double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Samples of one figure: at most `room` batches. */
struct samples {
    double *ns;
    size_t count, room;
};

enum { MAX_BATCHES = 4096 };

static inline struct samples samples_new(void) {
    struct samples s = {(double *)malloc(MAX_BATCHES * sizeof(double)), 0, MAX_BATCHES};
    if (s.ns == NULL) {
        fprintf(stderr, "bench: no memory for samples\n");
        exit(1);
    }
    return s;
}

static inline void samples_add(struct samples *s, double ns) {
    if (s->count < s->room) {
        s->ns[s->count++] = ns;
    }
}

static inline int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which a share of the samples lies; sorts them. */
static inline double samples_quantile(struct samples *s, double share) {
    if (s->count == 0) {
        return 0.0;
    }
    qsort(s->ns, s->count, sizeof(double), compare_doubles);
    size_t at = (size_t)(share * (double)(s->count - 1) + 0.5);
    return s->ns[at];
}

/*
 * How a measurement is cut into batches. A batch is long enough that reading the clock costs nothing beside it; the
 * whole fits the time budget. Both sides of a measurement must agree, so one computes the plan and sends it.
 */
struct plan {
    int per_batch, batches;
};

static inline struct plan plan_for(double one_ns, double budget_ms) {
    double batch_ns = 20e3; /* two reads of the clock are about 60 ns: 0.3 % */
    double budget_ns = budget_ms * 1e6;
    struct plan p;
    if (one_ns < 1.0) {
        one_ns = 1.0;
    }
    p.per_batch = one_ns >= batch_ns ? 1 : (int)(batch_ns / one_ns) + 1;
    double batches = budget_ns / (one_ns * p.per_batch);
    p.batches = batches < 5 ? 5 : batches > (double)MAX_BATCHES ? MAX_BATCHES : (int)batches;
    if (p.batches == MAX_BATCHES) {
        p.per_batch = (int)(budget_ns / (one_ns * (double)MAX_BATCHES)) + 1;
    }
    return p;
}

/*
 * A plan is made from a short trial; on a machine that is slowed down afterwards it could take for ever. So the batches
 * run in parts, and after each part one process says whether the time allows another one.
 */
enum { PARTS = 16 };

static inline int part_batches(const struct plan *p) {
    return p->batches / PARTS + 1;
}

static inline int another_part(double start_ns, double budget_ms) {
    return now_ns() - start_ns < 4 * budget_ms * 1e6;
}

/* Whether `name` is among the arguments. */
static inline int option(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

/* The argument after `name`, or NULL. */
static inline const char *option_text(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return NULL;
}

static inline double option_number(int argc, char **argv, const char *name, double otherwise) {
    const char *text = option_text(argc, argv, name);
    return text != NULL ? strtod(text, NULL) : otherwise;
}

/* Sizes of `--sizes 0,4,1024`; at most `room`. Gives how many. */
static inline int option_sizes(int argc, char **argv, const char *otherwise, size_t *sizes, int room) {
    const char *text = option_text(argc, argv, "--sizes");
    int count = 0;
    if (text == NULL) {
        text = otherwise;
    }
    while (*text != '\0' && count < room) {
        char *end;
        sizes[count++] = (size_t)strtoull(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

/* Memory of its own pages, written once so that no page fault is left to be measured. */
static inline unsigned char *touched(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 4096, bytes > 0 ? bytes : 1) != 0) {
        fprintf(stderr, "bench: no memory for a buffer of %zu bytes\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes > 0 ? bytes : 1);
    return (unsigned char *)p;
}

/* A pattern that differs by sender, message and position. */
static inline void pattern_fill(unsigned char *p, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++) {
        p[i] = (unsigned char)(seed * 31u + i + (i >> 8) * 7u);
    }
}

static inline int pattern_holds(const unsigned char *p, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++) {
        if (p[i] != (unsigned char)(seed * 31u + i + (i >> 8) * 7u)) {
            return 0;
        }
    }
    return 1;
}

/*
 * Compute that nothing can shorten: a chain of dependent multiplications, one at a time. Its time is a matter of the
 * core's clock alone, so a number of loops is the same work for every library.
 */
static inline uint64_t work(uint64_t loops) {
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < loops; i++) {
        x = x * 0x2545f4914f6cdd1du + 1;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Nanoseconds of one loop of work(): the least of many short runs, so that other processes do not count. */
static inline double work_ns_per_loop(void) {
    double least = 1e18;
    for (int i = 0; i < 400; i++) {
        double start = now_ns();
        work(20000);
        double took = now_ns() - start;
        if (took < least) {
            least = took;
        }
    }
    return least / 20000.0;
}

#endif
