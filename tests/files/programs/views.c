/* Views by many datatypes: what is written together is where a serial model says, and is read back by other ways. */
#include "../../mpi/programs/require.h"

static char *path;

/* Rank `rank` of `size` has each `size`-th block of `block` ints. */
static MPI_Datatype interleaved(int block, int rank, int size)
{
    MPI_Datatype vector, type;
    int sizes[1] = {block * size}, subsizes[1] = {block}, starts[1] = {block * rank};
    (void)vector;
    MPI_Type_create_subarray(1, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static void check_blocks(MPI_File file, int block, int blocks, int rank, int size, int disp)
{
    int total = block * blocks * size;
    int *all = malloc((total + 1) * sizeof *all);
    MPI_Status status;
    int count;
    (void)rank;
    CHECK(MPI_File_set_view(file, disp, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK(MPI_File_read_at(file, 0, all, total + 1, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    WANT(count == total, "%d of %d ints are in the file", count, total);
    for (int i = 0; i < total; i++)
        WANT(all[i] == i, "int %d is %d", i, all[i]);
    free(all);
}

static void blocks(int block, int count, int rank, int size, int how, MPI_Info info)
{
    MPI_File file;
    MPI_Datatype type = interleaved(block, rank, size);
    MPI_Status status;
    int disp = how % 2 ? 12 : 0, got, mine = block * count;
    int *data = malloc(mine * sizeof *data), *back = malloc(mine * sizeof *back);
    MPI_Request request;
    for (int i = 0; i < mine; i++)
        data[i] = (i / block * size + rank) * block + i % block, back[i] = -1;
    if (rank == 0)
        MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    CHECK(MPI_File_set_view(file, disp, MPI_INT, type, "native", info));
    switch (how) {
    case 0:
        CHECK(MPI_File_write(file, data, mine, MPI_INT, &status));
        break;
    case 1:
        CHECK(MPI_File_write_all(file, data, mine, MPI_INT, &status));
        break;
    case 2:
        CHECK(MPI_File_iwrite_all(file, data, mine, MPI_INT, &request));
        CHECK(MPI_Wait(&request, &status));
        break;
    case 3:
        CHECK(MPI_File_write_all_begin(file, data, mine, MPI_INT));
        CHECK(MPI_File_write_all_end(file, data, &status));
        break;
    default:
        CHECK(MPI_File_iwrite_at(file, 0, data, mine, MPI_INT, &request));
        CHECK(MPI_Wait(&request, &status));
    }
    MPI_Get_count(&status, MPI_INT, &got);
    WANT(got == mine, "%d of %d ints were written", got, mine);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all(file, 0, back, mine, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &got);
    WANT(got == mine, "%d of %d ints were read together", got, mine);
    WANT(memcmp(data, back, mine * sizeof *data) == 0, "other data were read together");
    memset(back, 0, mine * sizeof *back);
    CHECK(MPI_File_read_at(file, block, back, mine, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &got);
    WANT(got == mine - block, "%d of %d ints were read alone", got, mine - block);
    WANT(memcmp(data + block, back, (mine - block) * sizeof *data) == 0, "other data were read alone");
    memset(back, 0, mine * sizeof *back);
    CHECK(MPI_File_read_at_all(file, block, back, mine, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &got);
    WANT(got == mine - block, "%d of %d ints were read together at the end", got, mine - block);
    WANT(memcmp(data + block, back, (mine - block) * sizeof *data) == 0, "other data were read together at the end");
    check_blocks(file, block, count, rank, size, disp);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&type);
    free(data);
    free(back);
}

/* Blocks of a three-dimensional array, from memory with gaps. */
static void array(int n, int rank, int size)
{
    MPI_File file;
    int dims[3] = {0, 0, 0}, periods[3] = {0, 0, 0}, coords[3], sizes[3], subsizes[3], starts[3], with[3], one[3] = {1, 1, 1};
    MPI_Comm grid;
    MPI_Datatype filetype, memory;
    MPI_Status status;
    int count, total = 1, room = 1;
    MPI_Dims_create(size, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 3, coords);
    for (int d = 0; d < 3; d++) {
        subsizes[d] = n;
        sizes[d] = n * dims[d];
        starts[d] = n * coords[d];
        with[d] = n + 2;
        total *= n;
        room *= n + 2;
    }
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &filetype);
    MPI_Type_create_subarray(3, with, subsizes, one, MPI_ORDER_C, MPI_DOUBLE, &memory);
    MPI_Type_commit(&filetype);
    MPI_Type_commit(&memory);
    double *data = calloc(room, sizeof *data), *back = calloc(room, sizeof *back);
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++)
            for (int z = 0; z < n; z++) {
                int X = x + starts[0], Y = y + starts[1], Z = z + starts[2];
                data[((x + 1) * (n + 2) + y + 1) * (n + 2) + z + 1] = (X * sizes[1] + Y) * (double)sizes[2] + Z;
            }
    CHECK(MPI_File_open(grid, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_size(file, 0));
    CHECK(MPI_File_set_view(file, 0, MPI_DOUBLE, filetype, "native", MPI_INFO_NULL));
    CHECK(MPI_File_write_all(file, data, 1, memory, &status));
    MPI_Get_count(&status, memory, &count);
    WANT(count == 1, "%d elements of the memory type were written", count);
    CHECK(MPI_File_read_at_all(file, 0, back, 1, memory, &status));
    WANT(memcmp(data, back, room * sizeof *data) == 0, "another array was read");
    CHECK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
    double *all = malloc(total * size * sizeof *all);
    CHECK(MPI_File_read_at(file, 0, all, total * size, MPI_DOUBLE, &status));
    for (int i = 0; i < total * size; i++)
        WANT(all[i] == i, "element %d of the array is %g", i, all[i]);
    CHECK(MPI_File_close(&file));
    free(all);
    free(data);
    free(back);
    MPI_Type_free(&filetype);
    MPI_Type_free(&memory);
    MPI_Comm_free(&grid);
}

/* Rank 0 has bytes at the beginning of the file before its part of an array, in one type whose bounds are the array's:
   a second element would begin inside of the first. */
static void header(int rank, int size)
{
    enum { HEAD = 1000, MINE = 50 };
    int sizes[1] = {MINE * size}, subsizes[1] = {MINE}, starts[1] = {MINE * rank}, lengths[2] = {HEAD, 1};
    MPI_Aint places[2] = {0, HEAD}, lower, extent;
    int first = rank == 0 ? 0 : 1, bytes = MINE + (first ? 0 : HEAD);
    unsigned char *data = malloc(bytes + 1), *back = calloc(bytes + 1, 1);
    MPI_Datatype types[2] = {MPI_BYTE, MPI_DATATYPE_NULL}, type;
    MPI_File file;
    MPI_Status status;
    for (int i = 0; i < bytes; i++)
        data[i] = i * 7 + rank;
    CHECK(MPI_Type_create_subarray(1, sizes, subsizes, starts, MPI_ORDER_C, MPI_BYTE, &types[1]));
    CHECK(MPI_Type_create_struct(2 - first, lengths + first, places + first, types + first, &type));
    CHECK(MPI_Type_commit(&type));
    MPI_Type_get_extent(type, &lower, &extent);
    WANT(lower == HEAD && extent == MINE * size, "the bounds are %ld, %ld", (long)lower, (long)extent);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    CHECK(MPI_File_write_at_all(file, 0, data, bytes, MPI_BYTE, &status));
    CHECK(MPI_File_read_at(file, 0, back, bytes, MPI_BYTE, &status));
    WANT(memcmp(data, back, bytes) == 0, "rank %d reads back what it wrote", rank);
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    if (rank == 0) {
        CHECK(MPI_File_read_at(file, 0, back, HEAD, MPI_BYTE, &status));
        WANT(memcmp(data, back, HEAD) == 0, "the header is at the beginning");
    }
    CHECK(MPI_File_read_at(file, HEAD + MINE * rank, back, MINE, MPI_BYTE, &status));
    WANT(memcmp(data + bytes - MINE, back, MINE) == 0, "the part of rank %d is in its place", rank);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&type);
    MPI_Type_free(&types[1]);
    free(data);
    free(back);
}

/* Each rank has a list of blocks far behind the beginning of the file, the bounds of which begin there too. */
static void far_blocks(int rank, int size)
{
    enum { BLOCKS = 40, FAR = 17920 };
    int lengths[BLOCKS], bytes = 0;
    MPI_Aint places[BLOCKS];
    MPI_Datatype type;
    MPI_File file;
    MPI_Status status;
    unsigned char data[BLOCKS * 8], back[BLOCKS * 8];
    for (int i = 0; i < BLOCKS; i++) {
        lengths[i] = 1 + i % 8;
        places[i] = FAR + (i * size + rank) * 12;
        bytes += lengths[i];
    }
    for (int i = 0; i < bytes; i++)
        data[i] = i * 5 + rank + 1;
    CHECK(MPI_Type_create_hindexed(BLOCKS, lengths, places, MPI_BYTE, &type));
    CHECK(MPI_Type_commit(&type));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    CHECK(MPI_File_write_at_all(file, 0, data, bytes, MPI_BYTE, &status));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    for (int i = 0, at = 0; i < BLOCKS; at += lengths[i++]) {
        memset(back, 0, sizeof back);
        CHECK(MPI_File_read_at(file, places[i], back, lengths[i], MPI_BYTE, &status));
        WANT(memcmp(data + at, back, lengths[i]) == 0, "block %d of rank %d is in its place", i, rank);
    }
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    memset(back, 0, sizeof back);
    CHECK(MPI_File_read_at_all(file, 0, back, bytes, MPI_BYTE, &status));
    WANT(memcmp(data, back, bytes) == 0, "rank %d reads its blocks back", rank);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&type);
}

/* A view that is only read may show bytes twice, where a later part ends before an earlier one. */
static void shown_twice(void)
{
    int bytes[2] = {100, 10}, places[2] = {0, 10}, count;
    unsigned char data[110], back[110];
    MPI_Datatype type, copies;
    MPI_Status status;
    MPI_Offset offset;
    MPI_File file;
    for (int i = 0; i < 100; i++)
        data[i] = i;
    MPI_Type_indexed(2, bytes, places, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Type_create_hvector(2, 1, 0, MPI_INT, &copies);
    MPI_Type_commit(&copies);
    MPI_File_delete(path, MPI_INFO_NULL);
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    CHECK(MPI_File_preallocate(file, 0));
    CHECK(MPI_File_get_size(file, &offset));
    WANT(offset == 0, "room for nothing makes %d bytes", (int)offset);
    CHECK(MPI_File_write(file, data, 100, MPI_BYTE, &status));
    CHECK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    CHECK(MPI_File_read(file, back, 110, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    WANT(count == 110 && memcmp(back, data, 100) == 0, "%d of 110 bytes are read", count);
    for (int i = 0; i < 10; i++)
        WANT(back[100 + i] == 10 + i, "byte %d shown again is %d", 10 + i, back[100 + i]);
    /* The file ends inside of an element. */
    CHECK(MPI_File_set_view(file, 1, MPI_INT, copies, "native", MPI_INFO_NULL));
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_END));
    CHECK(MPI_File_get_position(file, &offset));
    WANT(offset == 50, "the end is at %d", (int)offset);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&type);
    MPI_Type_free(&copies);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Info info;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    path = argv[1];
    MPI_Info_create(&info);
    for (int how = 0; how < 5; how++) {
        blocks(1, 1000, rank, size, how, MPI_INFO_NULL);
        blocks(3, 20000, rank, size, how, MPI_INFO_NULL);
    }
    MPI_Info_set(info, "cb_nodes", "1");
    MPI_Info_set(info, "cb_buffer_size", "8192");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    for (int how = 1; how < 4; how++)
        blocks(7, 9999, rank, size, how, info);
    MPI_Info_set(info, "romio_cb_write", "disable");
    MPI_Info_set(info, "romio_cb_read", "disable");
    blocks(7, 999, rank, size, 1, info);
    MPI_Info_free(&info);
    array(5, rank, size);
    array(24, rank, size);
    header(rank, size);
    far_blocks(rank, size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        shown_twice();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_File_delete(path, MPI_INFO_NULL);
        printf("views are right\n");
    }
    MPI_Finalize();
    return 0;
}
