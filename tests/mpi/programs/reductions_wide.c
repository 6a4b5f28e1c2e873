/* Reductions on the reals that C compilers compute by software: REAL(16), REAL(2), complex numbers of them, and the types of
 * MPI_Type_create_f90_*. Results are those of the compiler's own __float128 and _Float16, bit by bit. Two ranks. */
#include "check.h"
#include <stdint.h>

__extension__ typedef __float128 quad;
__extension__ typedef _Float16 half;
__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 wide_signed;

enum { COUNT = 4000 };
static int rank, other;
static uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Numbers of all kinds: subnormal, huge, infinite, not numbers, close to each other, with few bits. */
static quad random_quad(void)
{
    const wide exponent = (wide)0x7fff << 112;
    wide bits = (wide)next() << 64 | next();
    quad number;
    switch (next() % 10) {
    case 0: bits &= ~exponent; break;
    case 1: bits = next() % 2 ? bits | exponent : (bits | exponent) & ~(((wide)1 << 112) - 1); break;
    case 2: bits &= (wide)1 << 127; break;
    case 3: bits = (bits & ~exponent) | (wide)(next() % 130) << 112; break;
    case 4: bits = (bits & ~exponent) | (wide)(32766 - (int)(next() % 5)) << 112; break;
    case 5: bits = (bits & ~exponent & ~(((wide)1 << next() % 112) - 1)) | (wide)(16382 + next() % 4) << 112; break;
    default: bits = (bits & ~exponent) | (wide)(16323 + next() % 120) << 112;
    }
    memcpy(&number, &bits, sizeof number);
    return number;
}

static half random_half(void)
{
    uint16_t bits = (uint16_t)next();
    half number;
    if (next() % 8 == 0)
        bits = (uint16_t)(0x3f0 + bits % 40);
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void fill(int of, quad *quads, half *halves)
{
    state = 88172645463325252u + (uint64_t)of;
    for (int i = 0; i < COUNT; i++) {
        quads[i] = random_quad();
        halves[i] = random_half();
    }
}

/* Equal bits, or two that are not numbers. */
#define SAME(got, wanted) (((got) != (got) && (wanted) != (wanted)) || memcmp(&(got), &(wanted), sizeof(got)) == 0)

static quad q[2][COUNT], q_got[COUNT];
static half h[2][COUNT], h_got[COUNT];

static int reals(MPI_Datatype of_quad, MPI_Datatype of_half)
{
    const MPI_Op ops[4] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
    int wrong = 0;
    for (int op = 0; op < 4; op++) {
        if (of_quad != MPI_DATATYPE_NULL)
            MPI_Allreduce(q[rank], q_got, COUNT, of_quad, ops[op], MPI_COMM_WORLD);
        if (of_half != MPI_DATATYPE_NULL)
            MPI_Allreduce(h[rank], h_got, COUNT, of_half, ops[op], MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++) {
            quad a = q[0][i], b = q[1][i], w = op == 0 ? a + b : op == 1 ? a * b : op == 2 ? (a < b ? a : b) : a > b ? a : b;
            half c = h[0][i], d = h[1][i], v = op == 0 ? c + d : op == 1 ? c * d : op == 2 ? (c < d ? c : d) : c > d ? c : d;
            /* Which of two zeros, and which operand beside what is not a number, is for the library to say. */
            int any_quad = op > 1 && (a == b || a != a || b != b), any_half = op > 1 && (c == d || c != c || d != d);
            wrong += of_quad != MPI_DATATYPE_NULL && !any_quad && !SAME(q_got[i], w);
            wrong += of_half != MPI_DATATYPE_NULL && !any_half && !SAME(h_got[i], v);
        }
    }
    return wrong;
}

static int complexes(MPI_Datatype of_quad, MPI_Datatype of_half)
{
    int wrong = 0;
    for (int op = 0; op < 2; op++) {
        if (of_quad != MPI_DATATYPE_NULL)
            MPI_Allreduce(q[rank], q_got, COUNT / 2, of_quad, op ? MPI_PROD : MPI_SUM, MPI_COMM_WORLD);
        if (of_half != MPI_DATATYPE_NULL)
            MPI_Allreduce(h[rank], h_got, COUNT / 2, of_half, op ? MPI_PROD : MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i += 2) {
            const quad *a = &q[0][i], *b = &q[1][i];
            const half *c = &h[0][i], *d = &h[1][i];
            quad re = op ? a[0] * b[0] - a[1] * b[1] : a[0] + b[0], im = op ? a[0] * b[1] + a[1] * b[0] : a[1] + b[1];
            half hre = op ? (half)((float)c[0] * (float)d[0] - (float)c[1] * (float)d[1]) : (half)(c[0] + d[0]);
            half him = op ? (half)((float)c[0] * (float)d[1] + (float)c[1] * (float)d[0]) : (half)(c[1] + d[1]);
            if (of_quad != MPI_DATATYPE_NULL)
                wrong += !SAME(q_got[i], re) + !SAME(q_got[i + 1], im);
            if (of_half != MPI_DATATYPE_NULL)
                wrong += !SAME(h_got[i], hre) + !SAME(h_got[i + 1], him);
        }
    }
    return wrong;
}

/* Integers are exact in any order: every way to reduce, small and large. */
static void every_way(MPI_Datatype datatype, int count)
{
    quad *mine = malloc((size_t)count * 2 * sizeof *mine), *got = malloc((size_t)count * 2 * sizeof *got), sum = 0;
    MPI_Request request;
    MPI_Win win;
    int wrong = 0;
    for (int i = 0; i < 2 * count; i++)
        mine[i] = i + rank;
#define EACH(call, from, to, wanted)        \
    for (int i = 0; i < 2 * count; i++)     \
        got[i] = -1;                        \
    call;                                   \
    for (int i = from; i < to; i++)         \
        wrong += got[i] != (wanted)
    EACH(MPI_Reduce(mine, got, count, datatype, MPI_SUM, 1, MPI_COMM_WORLD), 0, rank ? count : 0, 2 * i + 1);
    EACH(MPI_Scan(mine, got, count, datatype, MPI_SUM, MPI_COMM_WORLD), 0, count, rank ? 2 * i + 1 : i);
    EACH(MPI_Exscan(mine, got, count, datatype, MPI_SUM, MPI_COMM_WORLD), 0, rank ? count : 0, i);
    EACH(MPI_Reduce_scatter_block(mine, got, count, datatype, MPI_SUM, MPI_COMM_WORLD), 0, count, 2 * (i + rank * count) + 1);
    EACH((MPI_Iallreduce(mine, got, count, datatype, MPI_MAX, MPI_COMM_WORLD, &request), MPI_Wait(&request, MPI_STATUS_IGNORE)), 0, count, i + 1);
    memcpy(got, mine, (size_t)count * sizeof *got);
    MPI_Reduce_local(mine, got, count, datatype, MPI_SUM);
    for (int i = 0; i < count; i++)
        wrong += got[i] != 2 * mine[i];
    for (int i = 0; i < count; i++)
        got[i] = 5;
    MPI_Win_create(got, (MPI_Aint)count * (MPI_Aint)sizeof *got, sizeof *got, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(mine, count, datatype, other, 0, count, datatype, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Fetch_and_op(mine + 1, &sum, datatype, other, 0, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    wrong += sum != 5 + rank || got[0] != 5 + other + 1 + other;
    for (int i = 1; i < count; i++)
        wrong += got[i] != 5 + i + other;
    CHECK(wrong == 0);
    free(mine);
    free(got);
}

int main(int argc, char **argv)
{
    MPI_Datatype type;
    int code, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    for (int i = 0; i < 2; i++)
        fill(i, q[i], h[i]);
    CHECK(reals(MPI_REAL16, MPI_REAL2) == 0);
    CHECK(complexes(MPI_COMPLEX32, MPI_COMPLEX4) == 0);
    MPI_Type_create_f90_real(33, MPI_UNDEFINED, &type);
    CHECK(reals(type, MPI_DATATYPE_NULL) == 0);
    every_way(MPI_REAL16, 10);
    every_way(MPI_REAL16, 30000);
    every_way(type, 3);
    MPI_Type_create_f90_complex(30, 4000, &type);
    CHECK(complexes(type, MPI_DATATYPE_NULL) == 0);
    /* The other kinds: an answer, and the right one. */
    const int digits[3] = {6, 15, 18}, sizes[3] = {4, 8, 16};
    for (int i = 0; i < 3; i++) {
        union { float f; double d; long double l; } one = {0}, got = {0};
        MPI_Type_create_f90_real(digits[i], MPI_UNDEFINED, &type);
        MPI_Type_size(type, &size);
        CHECK(size == sizes[i]);
        if (i == 0) one.f = 1.5f; else if (i == 1) one.d = 1.5; else one.l = 1.5L;
        for (int op = 0; op < 4; op++) {
            MPI_Allreduce(&one, &got, 1, type, (MPI_Op[]){MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX}[op], MPI_COMM_WORLD);
            long double value = i == 0 ? got.f : i == 1 ? got.d : got.l;
            CHECK(value == (op == 0 ? 3.0L : op == 1 ? 2.25L : 1.5L));
        }
        union { float f[2]; double d[2]; long double l[2]; } both = {0}, all = {0};
        if (i == 0) both.f[1] = 2; else if (i == 1) both.d[1] = 2; else both.l[1] = 2;
        MPI_Type_create_f90_complex(digits[i], MPI_UNDEFINED, &type);
        MPI_Allreduce(&both, &all, 1, type, MPI_PROD, MPI_COMM_WORLD);
        CHECK((i == 0 ? all.f[0] : i == 1 ? all.d[0] : all.l[0]) == -4);
    }
    const int ranges[5] = {2, 4, 9, 18, 38};
    for (int i = 0; i < 5; i++) {
        wide_signed mine = 3 + rank, got = 0;
        MPI_Type_create_f90_integer(ranges[i], &type);
        for (int op = 0; op < 7; op++) {
            const MPI_Op ops[7] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
            const int wanted[7] = {7, 12, 3, 4, 0, 7, 7};
            MPI_Allreduce(&mine, &got, 1, type, ops[op], MPI_COMM_WORLD);
            CHECK(got == wanted[op]);
        }
    }
    /* What has no meaning is refused. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const MPI_Datatype refused[4] = {MPI_REAL16, MPI_REAL2, MPI_COMPLEX32, MPI_COMPLEX4};
    for (int i = 0; i < 4; i++) {
        code = MPI_Allreduce(q[rank], q_got, 1, refused[i], i < 2 ? MPI_BAND : MPI_MAX, MPI_COMM_WORLD);
        CHECK(class_of(code) == MPI_ERR_OP);
    }
    return finish("reductions_wide");
}
