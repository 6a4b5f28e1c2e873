/* An array of a type has room for all of the last element that the type was made of (MPI 5.1.6 leaves that open; mpi4py relies on
 * it). The extents are Open MPI's. */
#include "check.h"

/* Types in a row, of which each is made of the one before: the last one's extent. */
static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
}

int main(int argc, char **argv)
{
    const MPI_Datatype basics[2] = {MPI_INT, MPI_DOUBLE};
    const MPI_Aint vectors[2] = {480, 960}, indexed[2] = {344, 688};
    MPI_Datatype inner, outer, pair;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 2; i++) {
        MPI_Aint e = extent_of(basics[i]);
        MPI_Type_create_hvector(3, 4, 6 * e + 1, basics[i], &inner);
        MPI_Aint x = extent_of(inner);
        MPI_Type_create_hvector(2, 3, 4 * x + 1, inner, &outer);
        CHECK(extent_of(outer) == vectors[i]);
        MPI_Type_free(&outer);
        int lengths[2] = {2, 1};
        MPI_Aint places[2] = {3, 4 * x + 5};
        MPI_Type_create_hindexed(2, lengths, places, inner, &outer);
        CHECK(extent_of(outer) == indexed[i]);
        MPI_Type_free(&outer);
        /* The same by blocks of one length, and as members of a structure. */
        MPI_Type_create_hindexed_block(2, 1, places, inner, &outer);
        CHECK(extent_of(outer) >= places[1] + x - places[0] && extent_of(outer) % e == 0);
        MPI_Type_free(&outer);
        MPI_Datatype members[2] = {MPI_CHAR, inner};
        int ones[2] = {1, 1};
        MPI_Aint at[2] = {0, 1};
        MPI_Type_create_struct(2, ones, at, members, &outer);
        CHECK(extent_of(outer) >= 1 + x && extent_of(outer) % e == 0);
        MPI_Type_free(&outer);
        MPI_Type_contiguous(3, inner, &outer);
        CHECK(extent_of(outer) == 3 * x);
        MPI_Type_free(&outer);
        MPI_Type_free(&inner);
    }
    /* Where elements are aligned nothing changes. */
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_DOUBLE, MPI_CHAR}, &pair);
    CHECK(extent_of(pair) == 16);
    MPI_Type_vector(3, 1, 2, pair, &outer);
    CHECK(extent_of(outer) == 5 * 16);
    MPI_Type_free(&outer);
    MPI_Type_free(&pair);
    return finish("nested_extents");
}
