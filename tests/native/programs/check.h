/* What the programs of regions share: the rank, how many there are, and a check that counts what does not hold. */
#ifndef TUTTI_NATIVE_CHECK_H
#define TUTTI_NATIVE_CHECK_H

#include <stdatomic.h>
#include <stdio.h>

static int me;
static atomic_int failures;

#define CHECK(holds)                                                                  \
    do {                                                                              \
        if (!(holds)) {                                                               \
            fprintf(stderr, "rank %d, line %d: expected %s\n", me, __LINE__, #holds); \
            failures++;                                                               \
        }                                                                             \
    } while (0)

#endif
