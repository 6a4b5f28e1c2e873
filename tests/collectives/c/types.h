/*
 * Every operation on every type that it is defined for.
 */
#ifndef TUTTI_TYPES_H
#define TUTTI_TYPES_H

#include <complex.h>

#include "draws.h"

#define CHECK_TYPE(TYPE, MPI_TYPE, MPI_OPERATION, VALUE, EXPRESSION)                                                   \
    do {                                                                                                               \
        enum { N = 5 };                                                                                                \
        TYPE in[N], out[N], expected[N], local[N];                                                                     \
        stage = #MPI_OPERATION " on " #MPI_TYPE;                                                                       \
        memset(in, 0, sizeof in);                                                                                      \
        memset(out, 0, sizeof out);                                                                                    \
        for (int r = size - 1; r >= 0; r--) {                                                                          \
            for (int i = 0; i < N; i++) {                                                                              \
                TYPE a = (TYPE)(VALUE(r, i)), b = expected[i];                                                         \
                expected[i] = r == size - 1 ? a : (TYPE)(EXPRESSION);                                                  \
                if (r == rank) {                                                                                       \
                    in[i] = a;                                                                                         \
                }                                                                                                      \
                (void)b;                                                                                               \
            }                                                                                                          \
        }                                                                                                              \
        MPI_Allreduce(in, out, N, MPI_TYPE, MPI_OPERATION, comm);                                                      \
        for (int i = 0; i < N; i++) {                                                                                  \
            if (!(out[i] == expected[i])) {                                                                            \
                fail("place %d is wrong", i);                                                                          \
            }                                                                                                          \
            TYPE a = (TYPE)(VALUE(1, i)), b = (TYPE)(VALUE(2, i));                                                     \
            in[i] = a;                                                                                                 \
            local[i] = b;                                                                                              \
            expected[i] = (TYPE)(EXPRESSION);                                                                          \
        }                                                                                                              \
        MPI_Reduce_local(in, local, N, MPI_TYPE, MPI_OPERATION);                                                       \
        for (int i = 0; i < N; i++) {                                                                                  \
            if (!(local[i] == expected[i])) {                                                                          \
                fail("place %d of the local reduction is wrong", i);                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#define SMALL(r, i) (1 + ((r)*3 + (i)) % 3)
#define TRUTH(r, i) (((r) + (i)) % 3 != 0)
#define IMAGINARY(r, i) (SMALL(r, i) + SMALL(i, r) * I)

#define CHECK_ARITHMETIC(TYPE, MPI_TYPE)                                                                               \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_SUM, SMALL, a + b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_PROD, SMALL, a *b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_MIN, SMALL, a < b ? a : b);                                                         \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_MAX, SMALL, a > b ? a : b)

#define CHECK_LOGICAL(TYPE, MPI_TYPE)                                                                                  \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_LAND, TRUTH, a &&b);                                                                \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_LOR, TRUTH, a || b);                                                                \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_LXOR, TRUTH, !a != !b)

#define CHECK_BITS(TYPE, MPI_TYPE)                                                                                     \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_BAND, SMALL, a &b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_BOR, SMALL, a | b);                                                                 \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_BXOR, SMALL, a ^ b)

#define CHECK_INTEGER(TYPE, MPI_TYPE)                                                                                  \
    CHECK_ARITHMETIC(TYPE, MPI_TYPE);                                                                                  \
    CHECK_LOGICAL(TYPE, MPI_TYPE);                                                                                     \
    CHECK_BITS(TYPE, MPI_TYPE)

#define CHECK_COMPLEX(TYPE, MPI_TYPE)                                                                                  \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_SUM, IMAGINARY, a + b);                                                             \
    CHECK_TYPE(TYPE, MPI_TYPE, MPI_PROD, IMAGINARY, a *b)

#define CHECK_PAIRS(TYPE, MPI_TYPE)                                                                                    \
    do {                                                                                                               \
        enum { N = 7 };                                                                                                \
        struct {                                                                                                       \
            TYPE value;                                                                                                \
            int index;                                                                                                 \
        } in[N], low[N], high[N];                                                                                      \
        stage = "MPI_MINLOC and MPI_MAXLOC on " #MPI_TYPE;                                                             \
        memset(in, 0, sizeof in);                                                                                      \
        for (int i = 0; i < N; i++) {                                                                                  \
            in[i].value = (TYPE)((rank * 5 + i * 3) % 4);                                                              \
            in[i].index = size - rank;                                                                                 \
        }                                                                                                              \
        MPI_Allreduce(in, low, N, MPI_TYPE, MPI_MINLOC, comm);                                                         \
        MPI_Allreduce(in, high, N, MPI_TYPE, MPI_MAXLOC, comm);                                                        \
        for (int i = 0; i < N; i++) {                                                                                  \
            TYPE least = 9, most = 0;                                                                                  \
            int least_at = 0, most_at = 0;                                                                             \
            for (int r = 0; r < size; r++) {                                                                           \
                TYPE v = (TYPE)((r * 5 + i * 3) % 4);                                                                  \
                if (v < least || (v == least && size - r < least_at)) {                                                \
                    least = v;                                                                                         \
                    least_at = size - r;                                                                               \
                }                                                                                                      \
                if (r == 0 || v > most || (v == most && size - r < most_at)) {                                         \
                    most = v;                                                                                          \
                    most_at = size - r;                                                                                \
                }                                                                                                      \
            }                                                                                                          \
            if (low[i].value != least || low[i].index != least_at || high[i].value != most ||                          \
                high[i].index != most_at) {                                                                            \
                fail("place %d is wrong", i);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static inline void types_and_operations(MPI_Comm comm, int rank, int size) {
    CHECK_INTEGER(signed char, MPI_SIGNED_CHAR);
    CHECK_INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    CHECK_INTEGER(short, MPI_SHORT);
    CHECK_INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    CHECK_INTEGER(int, MPI_INT);
    CHECK_INTEGER(unsigned, MPI_UNSIGNED);
    CHECK_INTEGER(long, MPI_LONG);
    CHECK_INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    CHECK_INTEGER(long long, MPI_LONG_LONG);
    CHECK_INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    CHECK_INTEGER(int8_t, MPI_INT8_T);
    CHECK_INTEGER(uint8_t, MPI_UINT8_T);
    CHECK_INTEGER(int16_t, MPI_INT16_T);
    CHECK_INTEGER(uint16_t, MPI_UINT16_T);
    CHECK_INTEGER(int32_t, MPI_INT32_T);
    CHECK_INTEGER(uint32_t, MPI_UINT32_T);
    CHECK_INTEGER(int64_t, MPI_INT64_T);
    CHECK_INTEGER(uint64_t, MPI_UINT64_T);
    CHECK_ARITHMETIC(MPI_Aint, MPI_AINT);
    CHECK_ARITHMETIC(MPI_Count, MPI_COUNT);
    CHECK_ARITHMETIC(MPI_Offset, MPI_OFFSET);
    CHECK_ARITHMETIC(float, MPI_FLOAT);
    CHECK_ARITHMETIC(double, MPI_DOUBLE);
    CHECK_ARITHMETIC(long double, MPI_LONG_DOUBLE);
    CHECK_COMPLEX(float _Complex, MPI_C_FLOAT_COMPLEX);
    CHECK_COMPLEX(double _Complex, MPI_C_DOUBLE_COMPLEX);
    CHECK_COMPLEX(long double _Complex, MPI_C_LONG_DOUBLE_COMPLEX);
    CHECK_LOGICAL(bool, MPI_C_BOOL);
    CHECK_BITS(unsigned char, MPI_BYTE);
    CHECK_PAIRS(float, MPI_FLOAT_INT);
    CHECK_PAIRS(double, MPI_DOUBLE_INT);
    CHECK_PAIRS(long, MPI_LONG_INT);
    CHECK_PAIRS(int, MPI_2INT);
    CHECK_PAIRS(short, MPI_SHORT_INT);
    CHECK_PAIRS(long double, MPI_LONG_DOUBLE_INT);
}

#endif
