/* A partial differential equation by successive over-relaxation, on DSE's elements (tutti_dse.h). Each has a band of rows
 * in its global memory and reads the rows beside it from its neighbours. Usage: mpiexec -n 4 sor [SIZE [STEPS]] */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti_dse.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(int code)
{
    if (code) {
        fprintf(stderr, "sor: %s\n", tutti_dse_text());
        exit(1);
    }
}

/* One colour of the rows first..last; mesh[0] is row `offset` of the whole. */
static void relax(double *mesh, int size, int offset, int first, int last, int colour)
{
    for (int row = first; row <= last; row++) {
        double *at = mesh + (size_t)(row - offset) * size;
        for (int x = 1 + (row + 1 + colour) % 2; x < size - 1; x += 2)
            at[x] += 1.5 * ((at[x - 1] + at[x + 1] + at[x - size] + at[x + size]) / 4 - at[x]);
    }
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 48, steps = argc > 2 ? atoi(argv[2]) : 100;
    if (size < 3 || size > 4096 || steps < 1) {
        fprintf(stderr, "usage: sor [SIZE 3..4096 [STEPS]]\n");
        return 2;
    }
    size_t line = sizeof(double) * (size_t)size;
    /* A band for the largest share: init is called before an element knows how many there are. */
    must(tutti_dse_init(line * (size_t)size));
    int me = tutti_dse_element(), elements = tutti_dse_elements(), inner = size - 2;
    if (elements > inner) {
        if (me == 0)
            fprintf(stderr, "sor: %d elements for %d rows\n", elements, inner);
        exit(2);
    }
    must(tutti_dse_topology(TUTTI_DSE_RING, 0));
    int first = 1 + (int)((long)inner * me / elements), last = (int)((long)inner * (me + 1) / elements);

    /* Row `first - 1` to `last + 1`; the upper edge of the mesh is 1. */
    double *band = calloc((size_t)(last - first + 3), line);
    if (!band)
        return 1;
    if (me == 0)
        for (int x = 0; x < size; x++)
            band[x] = 1;
    double communication = 0, begin = now();
    for (int step = 0; step < 2 * steps; step++) {
        relax(band, size, first - 1, first, last, step % 2);
        double at = now();
        /* Global memory of an element: its first row, then its last. */
        must(tutti_dse_write(me, 0, band + size, line));
        must(tutti_dse_write(me, line, band + (size_t)(last - first + 1) * size, line));
        must(tutti_dse_barrier());
        if (me > 0)
            must(tutti_dse_read(me - 1, line, band, line));
        if (me < elements - 1)
            must(tutti_dse_read(me + 1, 0, band + (size_t)(last - first + 2) * size, line));
        must(tutti_dse_barrier());
        communication += now() - at;
    }
    double all = now() - begin;

    /* Element 0 compares with the same computed alone. */
    must(tutti_dse_topology(TUTTI_DSE_FULL, 0));
    must(tutti_dse_write(0, line * (size_t)first, band + size, line * (size_t)(last - first + 1)));
    must(tutti_dse_barrier());
    int differs = 0;
    if (me == 0) {
        double *alone = calloc((size_t)size, line), *found = calloc((size_t)size, line);
        if (!alone || !found)
            return 1;
        for (int x = 0; x < size; x++)
            alone[x] = 1;
        double alone_begin = now();
        for (int step = 0; step < 2 * steps; step++)
            relax(alone, size, 0, 1, inner, step % 2);
        double serial = now() - alone_begin;
        must(tutti_dse_read(0, line, found, line * (size_t)inner));
        differs = memcmp(found, alone + size, line * (size_t)inner) != 0;
        printf("sor %dx%d, %d steps, %d elements: %.3f ms, communication %.3f, computation %.3f; alone %.3f: %s\n",
               size, size, steps, elements, 1e3 * all, 1e3 * communication, 1e3 * (all - communication), 1e3 * serial,
               differs ? "WRONG" : "verified");
        free(alone);
        free(found);
    }
    must(tutti_dse_finish());
    free(band);
    return differs;
}
