/* Representations: external32 is what the standard says, byte by byte; a user's functions are called. */
#include "../../mpi/programs/require.h"

static char *path;
static int rank, size;

static unsigned char bytes[256];

static void raw(MPI_Offset offset, int count)
{
    MPI_File file;
    MPI_Status status;
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(MPI_File_read_at(file, offset, bytes, count, MPI_BYTE, &status));
    CHECK(MPI_File_close(&file));
}

/* Elements of {long, double}, each second one of all ranks': a long has 4 bytes there. */
static void external(void)
{
    struct { long l; double d; } data[3], back[3];
    int lengths[2] = {1, 1}, got;
    MPI_Aint places[2] = {0, sizeof(long)}, extent;
    MPI_Datatype types[2] = {MPI_LONG, MPI_DOUBLE}, both, pair, place;
    MPI_File file;
    MPI_Status status;
    char name[MPI_MAX_DATAREP_STRING];
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    MPI_Type_create_struct(2, lengths, places, types, &both);
    MPI_Type_commit(&both);
    for (int i = 0; i < 3; i++)
        data[i].l = -(i + 10 * rank + 1), data[i].d = i + 0.5;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_size(file, 0));
    CHECK(MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
    CHECK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    WANT(extent == 4, "a long has %ld bytes", (long)extent);
    CHECK(MPI_File_get_type_extent(file, MPI_LONG_DOUBLE, &extent));
    WANT(extent == 16, "a long double has %ld bytes", (long)extent);
    /* Longs in turn. */
    MPI_Type_vector(1, 1, 1, MPI_LONG, &pair);
    MPI_Type_create_subarray(1, &size, &lengths[0], &rank, MPI_ORDER_C, MPI_LONG, &place);
    MPI_Type_commit(&place);
    MPI_Type_free(&pair);
    CHECK(MPI_File_set_view(file, 8, MPI_LONG, place, "external32", MPI_INFO_NULL));
    long longs[2] = {-2 - rank, 258 + rank}, back_longs[2] = {0, 0};
    CHECK(MPI_File_write_all(file, longs, 2, MPI_LONG, &status));
    MPI_Get_count(&status, MPI_LONG, &got);
    WANT(got == 2, "%d longs were written", got);
    CHECK(MPI_File_get_view(file, &disp, &etype, &filetype, name));
    WANT(disp == 8 && etype == MPI_LONG && strcmp(name, "external32") == 0, "the view is at %lld, %s", (long long)disp, name);
    MPI_Type_free(&filetype);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all(file, 0, back_longs, 2, MPI_LONG, &status));
    WANT(back_longs[0] == longs[0] && back_longs[1] == longs[1], "%ld was read", back_longs[0]);
    CHECK(MPI_File_read_at(file, 1, back_longs, 5, MPI_LONG, &status));
    MPI_Get_count(&status, MPI_LONG, &got);
    WANT(got == 1 && back_longs[0] == longs[1], "%d longs were read", got);
    raw(8 + 4 * rank, 4);
    WANT(bytes[0] == 255 && bytes[3] == 254 - rank, "a long is %d %d %d %d", bytes[0], bytes[1], bytes[2], bytes[3]);
    raw(8 + 4 * (size + rank), 4);
    WANT(bytes[0] == 0 && bytes[2] == 1 && bytes[3] == 2 + rank, "a long is %d %d %d %d", bytes[0], bytes[1], bytes[2], bytes[3]);
    CHECK(MPI_File_set_view(file, 4096, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    CHECK(MPI_File_write_at_all(file, 36 * rank, data, 3, both, &status));
    MPI_Get_count(&status, both, &got);
    WANT(got == 3, "%d structures were written", got);
    CHECK(MPI_File_read_at_all(file, 36 * rank, back, 3, both, &status));
    WANT(memcmp(data, back, sizeof data) == 0, "other structures were read");
    raw(4096 + 36 * rank + 12, 12);
    WANT(bytes[3] == 254 - 10 * rank && bytes[4] == 0x3f && bytes[5] == 0xf8, "a structure is %d %d %d", bytes[3], bytes[4], bytes[5]);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&both);
    MPI_Type_free(&place);
}

/* A representation of ints in six bytes: two marks around the number. */
static int calls[3];

static int six_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    int bytes_of;
    MPI_Type_size(type, &bytes_of);
    calls[0]++;
    *extent = bytes_of + *(int *)state;
    return MPI_SUCCESS;
}

static int six_write(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    (void)type, (void)state;
    calls[1]++;
    for (int i = 0; i < count; i++) {
        char *to = (char *)file + 6 * i;
        to[0] = '<', to[5] = '>';
        memcpy(to + 1, (int *)user + position + i, 4);
    }
    return MPI_SUCCESS;
}

static int six_read(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    (void)type, (void)state;
    calls[2]++;
    for (int i = 0; i < count; i++)
        memcpy((int *)user + position + i, (char *)file + 6 * i + 1, 4);
    return MPI_SUCCESS;
}

static void users(void)
{
    static int more = 2;
    int data[10], back[10], got, class;
    MPI_File file;
    MPI_Status status;
    MPI_Datatype mine;
    MPI_Aint extent;
    MPI_Request request;
    CHECK(MPI_Register_datarep("six", six_read, six_write, six_extent, &more));
    MPI_Error_class(MPI_Register_datarep("six", six_read, six_write, six_extent, &more), &class);
    WANT(class == MPI_ERR_DUP_DATAREP, "the second registration has class %d", class);
    for (int i = 0; i < 10; i++)
        data[i] = 100 * rank + i;
    MPI_Type_vector(10, 1, size, MPI_INT, &mine);
    MPI_Type_commit(&mine);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_size(file, 0));
    CHECK(MPI_File_set_view(file, 6 * rank, MPI_INT, mine, "six", MPI_INFO_NULL));
    CHECK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    WANT(extent == 6, "an int has %ld bytes", (long)extent);
    CHECK(MPI_File_write_all(file, data, 10, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &got);
    WANT(got == 10, "%d ints were written", got);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    CHECK(MPI_File_iread_all(file, back, 10, MPI_INT, &request));
    CHECK(MPI_Wait(&request, &status));
    WANT(memcmp(data, back, sizeof data) == 0, "other ints were read");
    CHECK(MPI_File_read_at(file, 3, back, 2, MPI_INT, &status));
    WANT(back[0] == data[3] && back[1] == data[4], "%d was read", back[0]);
    WANT(calls[0] > 0 && calls[1] == 1 && calls[2] == 2, "%d, %d, %d calls", calls[0], calls[1], calls[2]);
    raw(6 * (size + rank), 6);
    WANT(bytes[0] == '<' && bytes[1] == ((100 * rank + 1) & 255) && bytes[5] == '>', "an int begins with %d", bytes[0]);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&mine);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    path = argv[1];
    external();
    MPI_Barrier(MPI_COMM_WORLD);
    users();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_File_delete(path, MPI_INFO_NULL);
        printf("datareps are right\n");
    }
    MPI_Finalize();
    return 0;
}
