/* Wrong arguments to datatype functions give the standard's error classes, and nothing is made. */
#include "check.h"

#define FAILS(call, class) CHECK(class_of(call) == (class))

int main(int argc, char **argv)
{
    int lengths[2] = {1, -1}, places[2] = {0, 1}, sizes[1] = {4}, two[1] = {2}, three[1] = {3}, number = 0, position;
    int integers[4], a, b, c, d;
    MPI_Aint bytes[2] = {0, 4}, addresses[2], aint;
    MPI_Datatype type = MPI_DATATYPE_NULL, good, freed, types[2] = {MPI_INT, MPI_DATATYPE_NULL}, got[1];
    char packed[8];

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);

    FAILS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    FAILS(MPI_Type_vector(-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_create_hvector(1, -1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_indexed(2, lengths, places, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_indexed(-1, lengths, places, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_create_indexed_block(2, -1, places, MPI_INT, &type), MPI_ERR_COUNT);
    lengths[1] = 1;
    FAILS(MPI_Type_create_struct(2, lengths, bytes, types, &type), MPI_ERR_TYPE);
    FAILS(MPI_Type_create_subarray(1, sizes, two, two, 77, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_match_size(-5, 4, &type), MPI_ERR_ARG);
    CHECK(type == MPI_DATATYPE_NULL);

    type = MPI_INT;
    FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
    CHECK(type == MPI_INT);
    type = MPI_DATATYPE_NULL;
    FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
    FAILS(MPI_Type_commit(&type), MPI_ERR_TYPE);
    FAILS(MPI_Type_size(MPI_DATATYPE_NULL, &a), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_contents(MPI_INT, 4, 2, 1, integers, addresses, got), MPI_ERR_TYPE);

    MPI_Type_vector(2, 1, 2, MPI_INT, &good);
    FAILS(MPI_Send(packed, 1, good, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    MPI_Type_commit(&good);
    MPI_Type_commit(&good);
    CHECK(MPI_Send(packed, 1, good, MPI_PROC_NULL, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    position = 2;
    if (is_tutti()) {
        FAILS(MPI_Type_create_subarray(0, sizes, two, two, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
        FAILS(MPI_Type_create_subarray(1, sizes, two, three, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
        FAILS(MPI_Type_get_contents(good, 2, 0, 1, integers, addresses, got), MPI_ERR_ARG);
        FAILS(MPI_Pack(&number, 1, MPI_INT, packed, 5, &position, MPI_COMM_WORLD), MPI_ERR_ARG);
        FAILS(MPI_Unpack(packed, 5, &position, &number, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_ARG);
        FAILS(MPI_Pack_external_size("internal", 1, MPI_INT, &aint), MPI_ERR_ARG);
        CHECK(position == 2);
        freed = good;
        MPI_Type_free(&good);
        FAILS(MPI_Type_size(freed, &a), MPI_ERR_TYPE);
        FAILS(MPI_Type_get_envelope(freed, &a, &b, &c, &d), MPI_ERR_TYPE);
        MPI_Type_vector_c(2, 1, 2, MPI_INT, &good);
        FAILS(MPI_Type_get_envelope(good, &a, &b, &c, &d), MPI_ERR_TYPE);
        MPI_Type_create_f90_integer(5, &type);
        FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_f90_integer(99, &type), MPI_ERR_ARG);
    }
    MPI_Type_free(&good);
    return finish("types_errors");
}
