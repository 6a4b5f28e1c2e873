/* MPI 5.1: sizes, bounds and extents of all constructors; the values are worked out by hand from the standard's definitions. */
#include "check.h"

#include <stddef.h>

struct mixed {
    char letter;
    double value;
    short number;
};

static void expect(MPI_Datatype type, MPI_Count size, MPI_Count lb, MPI_Count extent, MPI_Count true_lb, MPI_Count true_extent)
{
    int small_size;
    MPI_Aint small_lb, small_extent;
    MPI_Count got_size, got_lb, got_extent;

    MPI_Type_size_c(type, &got_size);
    CHECK(got_size == size);
    MPI_Type_size_x(type, &got_size);
    CHECK(got_size == size);
    MPI_Type_size(type, &small_size);
    CHECK(small_size == (size > 2147483647 ? MPI_UNDEFINED : (int)size));
    MPI_Type_get_extent(type, &small_lb, &small_extent);
    CHECK(small_lb == lb && small_extent == extent);
    MPI_Type_get_extent_c(type, &got_lb, &got_extent);
    CHECK(got_lb == lb && got_extent == extent);
    MPI_Type_get_extent_x(type, &got_lb, &got_extent);
    CHECK(got_lb == lb && got_extent == extent);
    MPI_Type_get_true_extent(type, &small_lb, &small_extent);
    CHECK(small_lb == true_lb && small_extent == true_extent);
    MPI_Type_get_true_extent_c(type, &got_lb, &got_extent);
    CHECK(got_lb == true_lb && got_extent == true_extent);
    MPI_Type_get_true_extent_x(type, &got_lb, &got_extent);
    CHECK(got_lb == true_lb && got_extent == true_extent);
}

static void expect_and_free(MPI_Datatype *type, MPI_Count size, MPI_Count lb, MPI_Count extent, MPI_Count true_lb,
                            MPI_Count true_extent)
{
    expect(*type, size, lb, extent, true_lb, true_extent);
    MPI_Type_free(type);
    CHECK(*type == MPI_DATATYPE_NULL);
}

static void predefined(void)
{
    expect(MPI_CHAR, 1, 0, 1, 0, 1);
    expect(MPI_INT, sizeof(int), 0, sizeof(int), 0, sizeof(int));
    expect(MPI_LONG_DOUBLE, sizeof(long double), 0, sizeof(long double), 0, sizeof(long double));
    expect(MPI_C_DOUBLE_COMPLEX, 16, 0, 16, 0, 16);
    expect(MPI_2INT, 8, 0, 8, 0, 8);
    expect(MPI_DOUBLE_INT, 12, 0, 16, 0, 12);
    expect(MPI_SHORT_INT, 6, 0, 8, 0, 8);
    expect(MPI_AINT, sizeof(MPI_Aint), 0, sizeof(MPI_Aint), 0, sizeof(MPI_Aint));
}

static void regular(void)
{
    MPI_Datatype type, inner;

    MPI_Type_contiguous(5, MPI_INT, &type);
    expect_and_free(&type, 20, 0, 20, 0, 20);
    MPI_Type_contiguous(0, MPI_INT, &type);
    expect_and_free(&type, 0, 0, 0, 0, 0);
    MPI_Type_vector(3, 2, 4, MPI_INT, &type);
    expect_and_free(&type, 24, 0, 40, 0, 40);
    MPI_Type_vector(3, 2, -4, MPI_INT, &type);
    expect_and_free(&type, 24, -32, 40, -32, 40);
    MPI_Type_create_hvector(3, 1, 12, MPI_INT, &type);
    expect_and_free(&type, 12, 0, 28, 0, 28);
    MPI_Type_create_resized(MPI_INT, -4, 32, &inner);
    expect(inner, 4, -4, 32, 0, 4);
    MPI_Type_contiguous(3, inner, &type);
    expect_and_free(&type, 12, -4, 96, 0, 68);
    MPI_Type_vector(2, 1, 2, inner, &type);
    expect_and_free(&type, 8, -4, 96, 0, 68);
    MPI_Type_dup(inner, &type);
    expect_and_free(&type, 4, -4, 32, 0, 4);
    MPI_Type_free(&inner);
}

static void irregular(void)
{
    int lengths[3] = {2, 0, 1}, places[3] = {4, -100, 1};
    MPI_Aint bytes[3] = {16, -400, 4};
    MPI_Datatype type;

    MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
    expect_and_free(&type, 12, 4, 20, 4, 20);
    MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &type);
    expect_and_free(&type, 12, 4, 20, 4, 20);
    MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &type);
    expect_and_free(&type, 24, -400, 424, -400, 424);
    MPI_Type_create_hindexed_block(3, 2, bytes, MPI_INT, &type);
    expect_and_free(&type, 24, -400, 424, -400, 424);
    MPI_Type_indexed(0, lengths, places, MPI_INT, &type);
    expect_and_free(&type, 0, 0, 0, 0, 0);
}

static void structures(void)
{
    int lengths[3] = {1, 1, 1};
    MPI_Aint places[3] = {offsetof(struct mixed, letter), offsetof(struct mixed, value), offsetof(struct mixed, number)};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, type, outer;

    MPI_Type_create_struct(3, lengths, places, types, &type);
    expect(type, 11, 0, sizeof(struct mixed), 0, offsetof(struct mixed, number) + sizeof(short));
    MPI_Type_contiguous(2, type, &outer);
    expect_and_free(&outer, 22, 0, 2 * sizeof(struct mixed), 0,
                    sizeof(struct mixed) + offsetof(struct mixed, number) + sizeof(short));
    MPI_Type_free(&type);
    MPI_Type_create_struct(0, lengths, places, types, &type);
    expect_and_free(&type, 0, 0, 0, 0, 0);
}

/* Bounds that are set count before those of the data, in whatever the type is part of (5.1.6). */
static void markers(void)
{
    int lengths[3] = {1, 1, 1};
    MPI_Aint places[3] = {0, 8, 0};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_DATATYPE_NULL, MPI_INT}, type;

    MPI_Type_create_resized(MPI_INT, 0, 16, &types[1]);
    MPI_Type_create_struct(2, lengths, places, types, &type);
    if (is_tutti())
        expect(type, 12, 8, 16, 0, 12);
    MPI_Type_free(&type);
    MPI_Type_free(&types[1]);
#ifdef MPI_UB
    places[0] = -4;
    places[1] = 40;
    types[0] = MPI_LB;
    types[1] = MPI_UB;
    MPI_Type_struct(3, lengths, places, types, &type);
    expect_and_free(&type, 4, -4, 44, 0, 4);
#endif
}

static void arrays(void)
{
    int sizes[2] = {6, 10}, subsizes[2] = {2, 3}, starts[2] = {1, 4}, psizes[2] = {2, 2}, rank;
    int distribs[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    int dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, 3};
    int bytes[4] = {3 * 6 * 4, 3 * 4 * 4, 3 * 6 * 4, 3 * 4 * 4}, total = 0, size;
    MPI_Datatype type;

    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
    expect_and_free(&type, 24, 0, 240, 4 * (1 * 10 + 4), 4 * 13);
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    expect_and_free(&type, 24, 0, 240, 4 * (4 * 6 + 1), 4 * 14);
    for (rank = 0; rank < 4; rank++) {
        MPI_Type_create_darray(4, rank, 2, sizes, distribs, dargs, psizes, MPI_ORDER_C, MPI_INT, &type);
        MPI_Type_size(type, &size);
        CHECK(size == bytes[rank]);
        total += size;
        MPI_Type_free(&type);
    }
    CHECK(total == 240);
}

static void large(void)
{
    MPI_Datatype type, inner;
    MPI_Count size, lb, extent;
    int small;

    MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &inner);
    expect(inner, (MPI_Count)8 << 30, 0, (MPI_Count)8 << 30, 0, (MPI_Count)8 << 30);
    MPI_Type_commit(&inner);
    MPI_Pack_size(1, inner, MPI_COMM_SELF, &small);
    CHECK(small == MPI_UNDEFINED);
    MPI_Type_vector_c((MPI_Count)1 << 33, 1, 1000, MPI_DOUBLE, &type);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK(lb == 0 && extent == (((MPI_Count)1 << 33) - 1) * 8000 + 8);
    MPI_Type_size_c(type, &size);
    CHECK(size == (MPI_Count)1 << 36);
    MPI_Type_free(&type);
    MPI_Type_free(&inner);
}

/* A structure that lies askew in another type takes its padding along, as with Open MPI: an array of that type has room for it. By
 * the letter of 5.1.6 extents are rounded up from the last byte of data; MPICH rounds those of structures only. */
static void padding_has_room(void)
{
    static const MPI_Aint places[] = {0, 1, 2, 3, 4, 5}, extents[] = {8, 12, 12, 12, 12, 16};
    MPI_Datatype inner, outer;
    MPI_Aint lower, extent;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 4}, (MPI_Datatype[]){MPI_INT, MPI_CHAR}, &inner);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, places[i]}, (MPI_Datatype[]){MPI_CHAR, inner}, &outer);
        MPI_Type_get_extent(outer, &lower, &extent);
        CHECK(lower == 0 && extent == extents[i]);
        MPI_Type_free(&outer);
    }
    MPI_Type_create_hvector(2, 1, 9, inner, &outer);
    MPI_Type_get_extent(outer, &lower, &extent);
    CHECK(lower == 0 && extent == 20);
    MPI_Type_free(&outer);
    MPI_Type_free(&inner);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    predefined();
    regular();
    irregular();
    structures();
    /* The markers of MPI-1 are no part of the ABI. */
    if (is_tutti()) {
        markers();
        padding_has_room();
    }
    arrays();
    large();
    return finish("types_bounds");
}
