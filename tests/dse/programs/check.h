/* What the programs of elements share: a check that ends the process, and the text of the library with it. */
#ifndef TUTTI_DSE_CHECK_H
#define TUTTI_DSE_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_dse.h>

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, tutti_dse_text());   \
            abort();                                                                         \
        }                                                                                    \
    } while (0)
#define OK(call) CHECK((call) == TUTTI_DSE_OK)
#define REFUSED(call, code, words) CHECK((call) == (code) && strstr(tutti_dse_text(), words))

#endif
