/* MPI 5.1.13, 7.8, 19.1: envelope and contents give back what a type was made with, and make the same type again; names; types by
 * size, digits and range; types live on in what is made of them. */
#include "check.h"

static void expect_envelope(MPI_Datatype type, int integers, int addresses, int datatypes, int combiner)
{
    int got_integers, got_addresses, got_datatypes, got_combiner;
    MPI_Count i, a, c, d;

    MPI_Type_get_envelope(type, &got_integers, &got_addresses, &got_datatypes, &got_combiner);
    CHECK(got_integers == integers && got_addresses == addresses && got_datatypes == datatypes);
    CHECK(got_combiner == combiner);
    MPI_Type_get_envelope_c(type, &i, &a, &c, &d, &got_combiner);
    CHECK(i == integers && a == addresses && c == 0 && d == datatypes && got_combiner == combiner);
}

static void expect_integers(MPI_Datatype type, int count, const int *expected, MPI_Datatype of)
{
    int integers[32], i;
    MPI_Aint addresses[8];
    MPI_Datatype types[8];

    MPI_Type_get_contents(type, 32, 8, 8, integers, addresses, types);
    for (i = 0; i < count; i++)
        CHECK(integers[i] == expected[i]);
    CHECK(types[0] == of);
}

static void envelopes(void)
{
    int lengths[2] = {2, 3}, places[2] = {5, 0}, three[3] = {4, 6, 5}, parts[3] = {2, 3, 1}, starts[3] = {1, 2, 0};
    int distribs[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE}, dargs[2] = {2, MPI_DISTRIBUTE_DFLT_DARG};
    int psizes[2] = {2, 1}, integers[8];
    MPI_Aint bytes[2] = {40, 0}, addresses[8];
    MPI_Datatype types[2] = {MPI_INT, MPI_CHAR}, type, got[2];

    expect_envelope(MPI_INT, 0, 0, 0, MPI_COMBINER_NAMED);
    expect_envelope(MPI_DOUBLE_INT, 0, 0, 0, MPI_COMBINER_NAMED);

    MPI_Type_contiguous(7, MPI_INT, &type);
    expect_envelope(type, 1, 0, 1, MPI_COMBINER_CONTIGUOUS);
    expect_integers(type, 1, (int[]){7}, MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_vector(7, 2, -3, MPI_INT, &type);
    expect_envelope(type, 3, 0, 1, MPI_COMBINER_VECTOR);
    expect_integers(type, 3, (int[]){7, 2, -3}, MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_hvector(7, 2, -3, MPI_INT, &type);
    expect_envelope(type, 2, 1, 1, MPI_COMBINER_HVECTOR);
    expect_integers(type, 2, (int[]){7, 2}, MPI_INT);
    MPI_Type_get_contents(type, 2, 1, 1, integers, addresses, got);
    CHECK(addresses[0] == -3);
    MPI_Type_free(&type);

    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    expect_envelope(type, 5, 0, 1, MPI_COMBINER_INDEXED);
    expect_integers(type, 5, (int[]){2, 2, 3, 5, 0}, MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type);
    expect_envelope(type, 3, 2, 1, MPI_COMBINER_HINDEXED);
    expect_integers(type, 3, (int[]){2, 2, 3}, MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_indexed_block(2, 3, places, MPI_INT, &type);
    expect_envelope(type, 4, 0, 1, MPI_COMBINER_INDEXED_BLOCK);
    expect_integers(type, 4, (int[]){2, 3, 5, 0}, MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_hindexed_block(2, 3, bytes, MPI_INT, &type);
    expect_envelope(type, 2, 2, 1, MPI_COMBINER_HINDEXED_BLOCK);
    expect_integers(type, 2, (int[]){2, 3}, MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_struct(2, lengths, bytes, types, &type);
    expect_envelope(type, 3, 2, 2, MPI_COMBINER_STRUCT);
    MPI_Type_get_contents(type, 3, 2, 2, integers, addresses, got);
    CHECK(integers[0] == 2 && integers[1] == 2 && integers[2] == 3);
    CHECK(addresses[0] == 40 && addresses[1] == 0 && got[0] == MPI_INT && got[1] == MPI_CHAR);
    MPI_Type_free(&type);

    MPI_Type_create_subarray(3, three, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    expect_envelope(type, 11, 0, 1, MPI_COMBINER_SUBARRAY);
    expect_integers(type, 11, (int[]){3, 4, 6, 5, 2, 3, 1, 1, 2, 0, MPI_ORDER_FORTRAN}, MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_darray(2, 1, 2, three, distribs, dargs, psizes, MPI_ORDER_C, MPI_INT, &type);
    expect_envelope(type, 12, 0, 1, MPI_COMBINER_DARRAY);
    expect_integers(type, 12,
                    (int[]){2, 1, 2, 4, 6, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE, 2, MPI_DISTRIBUTE_DFLT_DARG, 2,
                            1, MPI_ORDER_C},
                    MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_resized(MPI_INT, -8, 99, &type);
    expect_envelope(type, 0, 2, 1, MPI_COMBINER_RESIZED);
    MPI_Type_get_contents(type, 0, 2, 1, integers, addresses, got);
    CHECK(addresses[0] == -8 && addresses[1] == 99 && got[0] == MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_dup(MPI_INT, &type);
    expect_envelope(type, 0, 0, 1, MPI_COMBINER_DUP);
    expect_integers(type, 0, NULL, MPI_INT);
    MPI_Type_free(&type);
}

static void large_counts(void)
{
    MPI_Count places[2] = {(MPI_Count)1 << 40, 3}, sizes[2] = {6, 8}, parts[2] = {2, 3}, starts[2] = {1, 2};
    MPI_Count i, a, c, d, counts[8];
    int combiner, integers[8];
    MPI_Aint addresses[1];
    MPI_Datatype type, got[1];

    MPI_Type_create_hindexed_block_c(2, 5, places, MPI_INT, &type);
    MPI_Type_get_envelope_c(type, &i, &a, &c, &d, &combiner);
    CHECK(i == 0 && a == 0 && c == 4 && d == 1 && combiner == MPI_COMBINER_HINDEXED_BLOCK);
    MPI_Type_get_contents_c(type, i, a, c, d, integers, addresses, counts, got);
    CHECK(counts[0] == 2 && counts[1] == 5 && counts[2] == (MPI_Count)1 << 40 && counts[3] == 3 && got[0] == MPI_INT);
    MPI_Type_free(&type);

    MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_get_envelope_c(type, &i, &a, &c, &d, &combiner);
    CHECK(i == 2 && a == 0 && c == 6 && d == 1 && combiner == MPI_COMBINER_SUBARRAY);
    MPI_Type_get_contents_c(type, i, a, c, d, integers, addresses, counts, got);
    CHECK(integers[0] == 2 && integers[1] == MPI_ORDER_C && counts[0] == 6 && counts[3] == 3 && counts[5] == 2);
    MPI_Type_free(&type);
}

/* Derived types in contents are new handles of the same type; what a type is made of may be freed first. */
static void nested(void)
{
    MPI_Datatype row, block, got[1], again, inner[1];
    int integers[3], size;
    MPI_Aint addresses[1], lb, extent;

    MPI_Type_contiguous(4, MPI_DOUBLE, &row);
    MPI_Type_vector(3, 1, 2, row, &block);
    MPI_Type_free(&row);
    MPI_Type_get_contents(block, 3, 0, 1, integers, addresses, got);
    expect_envelope(got[0], 1, 0, 1, MPI_COMBINER_CONTIGUOUS);
    MPI_Type_vector(integers[0], integers[1], integers[2], got[0], &again);
    MPI_Type_get_extent(again, &lb, &extent);
    CHECK(lb == 0 && extent == 5 * 32);
    MPI_Type_free(&block);
    MPI_Type_get_contents(got[0], 1, 0, 1, integers, addresses, inner);
    CHECK(integers[0] == 4 && inner[0] == MPI_DOUBLE);
    MPI_Type_free(&got[0]);
    MPI_Type_size(again, &size);
    CHECK(size == 96);
    MPI_Type_free(&again);
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Datatype type;

    MPI_Type_get_name(MPI_INT, name, &length);
    CHECK(strcmp(name, "MPI_INT") == 0 && length == 7);
    MPI_Type_get_name(MPI_DOUBLE_INT, name, &length);
    CHECK(strcmp(name, "MPI_DOUBLE_INT") == 0);
    MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length);
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_get_name(type, name, &length);
    CHECK(name[0] == 0 && length == 0);
    MPI_Type_set_name(type, "pair of ints");
    MPI_Type_get_name(type, name, &length);
    CHECK(strcmp(name, "pair of ints") == 0 && length == 12);
    MPI_Type_free(&type);
}

static void chosen(void)
{
    MPI_Datatype type, same;
    int integers[2], size;

    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
    MPI_Type_size(type, &size);
    CHECK(size == 8);
    expect_envelope(type, 0, 0, 0, MPI_COMBINER_NAMED);
    MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, &type);
    MPI_Type_size(type, &size);
    CHECK(size == 4);
    MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &type);
    MPI_Type_size(type, &size);
    CHECK(size == 16);

    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &type);
    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &same);
    CHECK(type == same);
    MPI_Type_size(type, &size);
    CHECK(size == 8);
    expect_envelope(type, 2, 0, 0, MPI_COMBINER_F90_REAL);
    MPI_Type_get_contents(type, 2, 0, 0, integers, NULL, NULL);
    if (is_tutti())
        CHECK(integers[0] == 12 && integers[1] == MPI_UNDEFINED);
    MPI_Type_create_f90_integer(5, &type);
    MPI_Type_size(type, &size);
    CHECK(size == 4);
    expect_envelope(type, 1, 0, 0, MPI_COMBINER_F90_INTEGER);
    MPI_Type_create_f90_complex(4, 20, &type);
    MPI_Type_size(type, &size);
    CHECK(size == 8);
    expect_envelope(type, 2, 0, 0, MPI_COMBINER_F90_COMPLEX);

    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
    CHECK(type == MPI_DOUBLE_INT);
    MPI_Type_get_value_index(MPI_INT, MPI_INT, &type);
    CHECK(type == MPI_2INT);
}

static int copies, deletions;

static int copied(MPI_Datatype old, int key, void *extra, void *in, void *out, int *flag)
{
    (void)old, (void)key;
    copies++;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int deleted(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

/* A duplicate is committed if the type is, and its attributes are what the copy callbacks say. */
static void duplicates(void)
{
    static int step = 3;
    static char base[8];
    int key, flag, numbers[4] = {1, 2, 3, 4}, packed[2], position = 0;
    char *value;
    MPI_Datatype type, copy;

    MPI_Type_create_keyval(copied, deleted, &key, &step);
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, key, base);
    MPI_Type_dup(type, &copy);
    CHECK(copies == 1 && deletions == 0);
    MPI_Type_get_attr(copy, key, &value, &flag);
    CHECK(flag && value == base + 3);
    MPI_Type_free(&type);
    /* MPICH 5.0.2 calls it only when the duplicate is freed too. */
    if (is_tutti())
        CHECK(deletions == 1);
    MPI_Pack(numbers, 1, copy, packed, sizeof packed, &position, MPI_COMM_SELF);
    CHECK(position == 8 && packed[0] == 1 && packed[1] == 3);
    MPI_Type_free(&copy);
    CHECK(deletions == 2);
    MPI_Type_free_keyval(&key);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    duplicates();
    envelopes();
    large_counts();
    nested();
    names();
    chosen();
    return finish("types_contents");
}
