/* MPI 5.2 and 5.3: packing in steps, native and external32. */
#include "check.h"

static void native(void)
{
    int numbers[6] = {1, 2, 3, 4, 5, 6}, got[6] = {0}, position = 0, size, total = 0;
    double value = 2.5, value_got = 0;
    char packed[100];
    MPI_Datatype every_other;
    MPI_Count large = 0;

    MPI_Type_vector(3, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Pack_size(1, every_other, MPI_COMM_WORLD, &size);
    CHECK(size >= 12);
    total += size;
    MPI_Pack_size(1, MPI_DOUBLE, MPI_COMM_WORLD, &size);
    total += size;
    CHECK(total <= (int)sizeof packed);
    MPI_Pack(numbers, 1, every_other, packed, sizeof packed, &position, MPI_COMM_WORLD);
    CHECK(position == 12);
    MPI_Pack(&value, 1, MPI_DOUBLE, packed, sizeof packed, &position, MPI_COMM_WORLD);
    CHECK(position == 20);
    size = position;
    position = 0;
    MPI_Unpack(packed, size, &position, got, 3, MPI_INT, MPI_COMM_WORLD);
    CHECK(position == 12 && got[0] == 1 && got[1] == 3 && got[2] == 5 && got[3] == 0);
    MPI_Unpack(packed, size, &position, &value_got, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    CHECK(position == 20 && value_got == 2.5);
    MPI_Unpack_c(packed, size, &large, got, 1, every_other, MPI_COMM_WORLD);
    CHECK(large == 12 && got[0] == 1 && got[2] == 3 && got[4] == 5);
    MPI_Pack_c(got, 1, every_other, packed, sizeof packed, &large, MPI_COMM_WORLD);
    CHECK(large == 24 && memcmp(packed + 12, packed, 12) == 0);
    MPI_Type_free(&every_other);
}

/* What is packed may travel as MPI_PACKED, and what was sent as data may be received packed. */
static void packed_messages(void)
{
    int rank, position = 0, numbers[3] = {7, 8, 9}, got[3] = {0};
    char packed[64];
    MPI_Status status;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Pack(numbers, 3, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD);
        MPI_Send(packed, position, MPI_PACKED, 1, 1, MPI_COMM_WORLD);
        MPI_Send(numbers, 3, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(got, 3, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got[0] == 7 && got[2] == 9);
        MPI_Recv(packed, sizeof packed, MPI_PACKED, 0, 2, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_PACKED, &position);
        CHECK(position == 12);
        position = 0;
        MPI_Unpack(packed, sizeof packed, &position, got, 3, MPI_INT, MPI_COMM_WORLD);
        CHECK(got[1] == 8);
    }
}

static void expect_external(MPI_Datatype type, const void *data, int bytes, const char *expected, int length)
{
    char packed[64], back[64];
    MPI_Aint size, position = 0;
    MPI_Count large, large_position = 0;

    MPI_Pack_external_size("external32", 1, type, &size);
    CHECK(size == length);
    MPI_Pack_external_size_c("external32", 1, type, &large);
    CHECK(large == length);
    memset(packed, 0x77, sizeof packed);
    MPI_Pack_external("external32", data, 1, type, packed, sizeof packed, &position);
    CHECK(position == length && memcmp(packed, expected, (size_t)length) == 0 && packed[length] == 0x77);
    memset(back, 0, sizeof back);
    position = 0;
    MPI_Unpack_external("external32", packed, length, &position, back, 1, type);
    CHECK(position == length && memcmp(back, data, (size_t)bytes) == 0);
    memset(packed, 0, sizeof packed);
    MPI_Pack_external_c("external32", data, 1, type, packed, sizeof packed, &large_position);
    CHECK(large_position == length && memcmp(packed, expected, (size_t)length) == 0);
    large_position = 0;
    memset(back, 0, sizeof back);
    MPI_Unpack_external_c("external32", packed, length, &large_position, back, 1, type);
    CHECK(large_position == length && memcmp(back, data, (size_t)bytes) == 0);
}

static void external(void)
{
    short small = -2;
    int number = 0x01020304;
    long long large = -3;
    long narrow = -4;
    double value = 1.0;
    long double extended = -1.5L;
    float complex[2] = {1, -2};
    MPI_Aint size;
    MPI_Datatype type, every_other;
    struct {
        int number;
        double value;
    } both = {5, 1.0};
    int numbers[5] = {1, -1, 2, -1, 3}, lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};

    expect_external(MPI_SHORT, &small, sizeof small, "\377\376", 2);
    expect_external(MPI_INT, &number, sizeof number, "\1\2\3\4", 4);
    expect_external(MPI_LONG_LONG, &large, sizeof large, "\377\377\377\377\377\377\377\375", 8);
    expect_external(MPI_LONG, &narrow, sizeof narrow, "\377\377\377\374", 4);
    expect_external(MPI_DOUBLE, &value, sizeof value, "\77\360\0\0\0\0\0\0", 8);
    expect_external(MPI_C_FLOAT_COMPLEX, complex, sizeof complex, "\77\200\0\0\300\0\0\0", 8);
    if (is_tutti())
        expect_external(MPI_LONG_DOUBLE, &extended, 10, "\277\377\200\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    MPI_Pack_external_size("external32", 3, MPI_WCHAR, &size);
    CHECK(size == 6);

    MPI_Type_vector(3, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    numbers[1] = numbers[3] = 0;
    expect_external(every_other, numbers, sizeof numbers, "\0\0\0\1\0\0\0\2\0\0\0\3", 12);
    MPI_Type_free(&every_other);
    MPI_Type_create_struct(2, lengths, places, types, &type);
    MPI_Type_commit(&type);
    /* MPICH 5.0.2 ends with an illegal instruction here. */
    if (is_tutti())
        expect_external(type, &both.number, 4, "\0\0\0\5\77\360\0\0\0\0\0\0", 12);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    native();
packed_messages();
    external();
    return finish("types_pack");
}
