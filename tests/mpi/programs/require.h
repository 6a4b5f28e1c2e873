/* What programs share that end the job at the first thing that is wrong, and say what was found. */
#ifndef TUTTI_REQUIRE_H
#define TUTTI_REQUIRE_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(holds, ...)                                       \
    do {                                                       \
        if (!(holds)) {                                        \
            printf("%s:%d: ", __func__, __LINE__);             \
            printf(__VA_ARGS__);                               \
            printf("\n");                                      \
            fflush(stdout);                                    \
            MPI_Abort(MPI_COMM_WORLD, 1);                      \
        }                                                      \
    } while (0)

#define CHECK(call)                                            \
    do {                                                       \
        int code_ = (call);                                    \
        if (code_ != MPI_SUCCESS) {                            \
            char text_[MPI_MAX_ERROR_STRING];                  \
            int length_;                                       \
            MPI_Error_string(code_, text_, &length_);          \
            WANT(0, "%s: %s", #call, text_);                   \
        }                                                      \
    } while (0)

#define FAILS(call, wanted)                                                                 \
    do {                                                                                    \
        int code_ = (call), class_ = MPI_SUCCESS;                                           \
        MPI_Error_class(code_, &class_);                                                    \
        WANT(class_ == (wanted), "%s gives class %d, expected %s", #call, class_, #wanted); \
    } while (0)

#endif
