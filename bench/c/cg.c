/*
 * A conjugate-gradient solver with OpenMP, for one process: serial parts on the master, parallel parts on all threads, which it
 * announces as phases. The matrix is sparse, symmetric and positive definite; its columns lie far apart. The right-hand side belongs
 * to a known solution, so the result is verified.
 *
 *   cg [SOLUTIONS] [ROWS]
 *
 * Prints `phases: T ms` of the whole, and `cg parallel_ms=P total_ms=T threads=N` of which so much was in parallel parts.
 */
#include "bench.h"
#include <math.h>
#include <omp.h>
#include <tutti.h>

enum { PAIRS = 5, ENTRIES = 2 * PAIRS + 1, ITERATIONS = 25 };

static int rows, *columns;
static double *values, *x, *b, *r, *p, *q;
static double parallel_ns;

static void *array(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) {
        fprintf(stderr, "cg: no memory for %zu rows\n", count);
        exit(1);
    }
    return memory;
}

/* Row i has its diagonal, and the same few values at the columns i + d and i - d of some distances d. */
static void build(void) {
    uint64_t state = 1;
    double off[PAIRS], sum = 0;
    int distance[PAIRS];
    for (int k = 0; k < PAIRS; k++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        distance[k] = 1 + (int)((state >> 33) % (uint64_t)(rows / 2 - 1));
        off[k] = -0.5 / (k + 1);
        sum -= 2 * off[k];
    }
    for (int i = 0; i < rows; i++) {
        int *column = columns + (size_t)i * ENTRIES;
        double *value = values + (size_t)i * ENTRIES;
        column[0] = i, value[0] = sum + 0.2;
        for (int k = 0; k < PAIRS; k++) {
            column[1 + 2 * k] = (i + distance[k]) % rows, value[1 + 2 * k] = off[k];
            column[2 + 2 * k] = (i + rows - distance[k]) % rows, value[2 + 2 * k] = off[k];
        }
    }
}

static double begin_phase(void) {
    tutti_parallel_begin();
    return now_ns();
}

static void end_phase(double begun) {
    parallel_ns += now_ns() - begun;
    tutti_parallel_end();
}

/* A row of A times a vector. */
static double product(int row, const double *vector) {
    double sum = 0;
    for (size_t k = (size_t)row * ENTRIES; k < (size_t)(row + 1) * ENTRIES; k++) {
        sum += values[k] * vector[columns[k]];
    }
    return sum;
}

/* to = A from, and from * to. */
static double multiply(const double *from, double *to) {
    double sum = 0, begun = begin_phase();
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < rows; i++) {
        to[i] = product(i, from);
        sum += to[i] * from[i];
    }
    end_phase(begun);
    return sum;
}

/* x += alpha p, r -= alpha q, and r * r. */
static double step(double alpha) {
    double sum = 0, begun = begin_phase();
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < rows; i++) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
        sum += r[i] * r[i];
    }
    end_phase(begun);
    return sum;
}

static void turn(double beta) {
    double begun = begin_phase();
#pragma omp parallel for
    for (int i = 0; i < rows; i++) {
        p[i] = r[i] + beta * p[i];
    }
    end_phase(begun);
}

/* Solves A x = b; the largest distance from the solution, which is `expected` everywhere. Before and behind the iterations the
 * master works alone: it sets the problem up, and checks the residual and the solution. */
static double solve(double expected) {
    double rho = 0, worst = 0;
    for (int i = 0; i < rows; i++) {
        x[i] = 0;
        r[i] = p[i] = b[i] * expected;
        rho += r[i] * r[i];
    }
    for (int i = 0; i < ITERATIONS && rho > 0; i++) {
        double alpha = rho / multiply(p, q), before = rho;
        rho = step(alpha);
        turn(rho / before);
    }
    for (int i = 0; i < rows; i++) {
        worst = fmax(worst, fabs(x[i] / expected - 1));
        worst = fmax(worst, fabs(b[i] * expected - product(i, x)) / expected);
    }
    return worst;
}

int main(int argc, char **argv) {
    int solutions = argc > 1 ? atoi(argv[1]) : 15;
    rows = argc > 2 ? atoi(argv[2]) : 14000;
    if (solutions < 1 || rows < 8 || rows > 10000000) {
        fprintf(stderr, "usage: cg [SOLUTIONS] [ROWS]\n");
        return 2;
    }
    columns = array((size_t)rows * ENTRIES, sizeof *columns);
    values = array((size_t)rows * ENTRIES, sizeof *values);
    double **all[] = {&x, &b, &r, &p, &q};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i] = array((size_t)rows, sizeof(double));
    }
    build();
    for (int i = 0; i < rows; i++) {
        p[i] = 1;
    }
    multiply(p, b);
    parallel_ns = 0;
    double begin = now_ns(), worst = 0;
    for (int i = 0; i < solutions; i++) {
        worst = fmax(worst, solve(1 + i));
    }
    double total_ns = now_ns() - begin;
    if (!(worst < 1e-6)) {
        fprintf(stderr, "cg: wrong by %g\n", worst);
        return 1;
    }
    printf("phases: %.3f ms\ncg parallel_ms=%.3f total_ms=%.3f threads=%d\n", total_ns / 1e6, parallel_ns / 1e6, total_ns / 1e6,
           omp_get_max_threads());
    return 0;
}
