/* Times of one access to global memory of DSE's elements, as table 1 of its paper: 16 bytes, local and remote, element 0.
 * A write is timed as the paper's (it returns, others follow; one confirmation at the end), and with its confirmation.
 * Usage: mpiexec -n 2 dse [ACCESSES]
 * Prints a line for each: what=local-read mean_us=1.234 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti_dse.h>

enum { BYTES = 16, WARM = 100 };

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void must(int code)
{
    if (code) {
        fprintf(stderr, "dse: %s\n", tutti_dse_text());
        exit(1);
    }
}

/* The mean of one access of a kind: r read, w write, c write with confirmation. */
static double mean_us(char kind, int element, int accesses)
{
    char bytes[BYTES];
    memset(bytes, kind, BYTES);
    double begin = 0;
    for (int i = -WARM; i < accesses; i++) {
        if (i == 0)
            begin = now_us();
        must(kind == 'r'   ? tutti_dse_read(element, 0, bytes, BYTES)
             : kind == 'w' ? tutti_dse_write(element, 0, bytes, BYTES)
                           : tutti_dse_write_confirmed(element, 0, bytes, BYTES));
    }
    must(tutti_dse_confirm());
    return (now_us() - begin) / accesses;
}

int main(int argc, char **argv)
{
    int accesses = argc > 1 ? atoi(argv[1]) : 1000;
    must(tutti_dse_init(4096));
    if (accesses < 1 || tutti_dse_elements() != 2) {
        fprintf(stderr, "usage: mpiexec -n 2 dse [ACCESSES]\n");
        exit(2);
    }
    must(tutti_dse_barrier());
    if (tutti_dse_element() == 0) {
        const char *names[] = {"read", "write", "confirmed"};
        for (int there = 0; there < 2; there++)
            for (int kind = 0; kind < 3; kind++)
                printf("what=%s-%s mean_us=%.3f\n", there ? "remote" : "local", names[kind],
                       mean_us("rwc"[kind], there, accesses));
    }
    must(tutti_dse_barrier());
    return tutti_dse_finish();
}
