/* Every kind of access: individual, shared and ordered pointers, nonblocking in any order, split, atomic mode,
 * sequential and appending files, sizes. */
#include "../../mpi/programs/require.h"

static char *path;
static int rank, size;

static MPI_File opened(int amode)
{
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file));
    return file;
}

static int count_of(MPI_Status *status, MPI_Datatype type)
{
    int count;
    MPI_Get_count(status, type, &count);
    return count;
}

static void fresh(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void shared_pointers(void)
{
    enum { RECORDS = 50, INTS = 5 };
    int record[INTS], *all = calloc(RECORDS * size * INTS, sizeof *all), *seen = calloc(RECORDS * size, sizeof *seen);
    MPI_Status status;
    MPI_Offset offset;
    MPI_Request request;
    fresh();
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    CHECK(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < RECORDS; i++) {
        for (int k = 0; k < INTS; k++)
            record[k] = i * size + rank;
        if (i % 2)
            CHECK(MPI_File_write_shared(file, record, INTS, MPI_INT, &status));
        else {
            CHECK(MPI_File_iwrite_shared(file, record, INTS, MPI_INT, &request));
            CHECK(MPI_Wait(&request, &status));
        }
        WANT(count_of(&status, MPI_INT) == INTS, "a record is incomplete");
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(MPI_File_get_position_shared(file, &offset));
    WANT(offset == RECORDS * size * INTS, "the shared pointer is at %lld", (long long)offset);
    CHECK(MPI_File_get_size(file, &offset));
    WANT(offset == 8 + (MPI_Offset)(RECORDS * size * INTS * sizeof(int)), "the size is %lld", (long long)offset);
    CHECK(MPI_File_read_at(file, 0, all, RECORDS * size * INTS, MPI_INT, &status));
    for (int r = 0; r < RECORDS * size; r++) {
        for (int k = 1; k < INTS; k++)
            WANT(all[r * INTS + k] == all[r * INTS], "record %d is mixed", r);
        WANT(seen[all[r * INTS]]++ == 0, "record %d is there twice", all[r * INTS]);
    }
    /* In the order of ranks, each with another number. */
    CHECK(MPI_File_seek_shared(file, 10, MPI_SEEK_SET));
    int mine = 3 * rank + 1, before = 10, total = 0, data[100], back[100];
    for (int r = 0; r < size; r++) {
        before += r < rank ? 3 * r + 1 : 0;
        total += 3 * r + 1;
    }
    for (int i = 0; i < mine; i++)
        data[i] = 1000 * rank + i;
    CHECK(MPI_File_write_ordered(file, data, mine, MPI_INT, &status));
    WANT(count_of(&status, MPI_INT) == mine, "ordered data are incomplete");
    CHECK(MPI_File_read_at(file, before, back, mine, MPI_INT, &status));
    WANT(memcmp(data, back, mine * sizeof *data) == 0, "ordered data are elsewhere");
    CHECK(MPI_File_write_ordered_begin(file, data, mine, MPI_INT));
    CHECK(MPI_File_write_ordered_end(file, data, &status));
    WANT(count_of(&status, MPI_INT) == mine, "split ordered data are incomplete");
    CHECK(MPI_File_get_position_shared(file, &offset));
    WANT(offset == 10 + 2 * total, "the shared pointer is at %lld", (long long)offset);
    CHECK(MPI_File_seek_shared(file, -total, MPI_SEEK_CUR));
    CHECK(MPI_File_read_ordered(file, back, mine, MPI_INT, &status));
    WANT(memcmp(data, back, mine * sizeof *data) == 0, "other ordered data were read");
    CHECK(MPI_File_seek_shared(file, 10, MPI_SEEK_SET));
    CHECK(MPI_File_read_ordered_begin(file, back, mine, MPI_INT));
    CHECK(MPI_File_read_ordered_end(file, back, &status));
    WANT(memcmp(data, back, mine * sizeof *data) == 0, "other split ordered data were read");
    CHECK(MPI_File_seek_shared(file, 0, MPI_SEEK_END));
    CHECK(MPI_File_read_shared(file, back, 1, MPI_INT, &status));
    WANT(count_of(&status, MPI_INT) == 0, "something was read behind the end");
    CHECK(MPI_File_close(&file));
    WANT(file == MPI_FILE_NULL, "the handle of a closed file stays");
    free(all);
    free(seen);
}

/* Collective accesses are started by all ranks in one order, and waited for in another one. */
static void nonblocking(void)
{
    enum { AT_ONCE = 8, INTS = 3000 };
    static int data[AT_ONCE][INTS], back[AT_ONCE][INTS];
    MPI_Request requests[AT_ONCE];
    MPI_Status status;
    MPI_Datatype type;
    int token = 7;
    fresh();
    MPI_Type_create_resized(MPI_INT, 0, size * sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    CHECK(MPI_File_set_view(file, rank * sizeof(int), MPI_INT, type, "native", MPI_INFO_NULL));
    MPI_Type_free(&type);
    for (int i = 0; i < AT_ONCE; i++) {
        for (int k = 0; k < INTS; k++)
            data[i][k] = i * INTS * 10 + k * 10 + rank;
        CHECK(MPI_File_iwrite_at_all(file, (MPI_Offset)i * INTS, data[i], INTS, MPI_INT, &requests[i]));
    }
    /* The others come to their accesses only when rank 0 has sent, and it sends before it waits. */
    for (int to = 1; rank == 0 && to < size; to++)
        MPI_Send(&token, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    if (rank > 0)
        MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < AT_ONCE; i++) {
        int which = (i + rank) % AT_ONCE, done = 0;
        while (i % 2 && !done)
            CHECK(MPI_Test(&requests[which], &done, &status));
        if (!done)
            CHECK(MPI_Wait(&requests[which], &status));
        WANT(count_of(&status, MPI_INT) == INTS, "%d ints were written", count_of(&status, MPI_INT));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < AT_ONCE; i++)
        CHECK(MPI_File_iread_all(file, back[i], INTS, MPI_INT, &requests[i]));
    MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
    WANT(memcmp(data, back, sizeof data) == 0, "other data were read");
    memset(back, 0, sizeof back);
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < AT_ONCE; i++)
        CHECK(MPI_File_iread(file, back[i], INTS, MPI_INT, &requests[i]));
    MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
    WANT(memcmp(data, back, sizeof data) == 0, "other data were read alone");
    CHECK(MPI_File_close(&file));
}

static void split_and_seek(void)
{
    int data[64], back[64], flag;
    MPI_Status status;
    MPI_Offset offset;
    fresh();
    for (int i = 0; i < 64; i++)
        data[i] = 100 * rank + i;
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    CHECK(MPI_File_write_at_all_begin(file, 64 * rank, data, 64, MPI_INT));
    int code = MPI_File_write_all_end(file, data, &status), class;
    MPI_Error_class(code, &class);
    WANT(class == MPI_ERR_OTHER, "another split access was ended with class %d", class);
    CHECK(MPI_File_write_at_all_end(file, data, &status));
    WANT(count_of(&status, MPI_INT) == 64, "%d ints were written", count_of(&status, MPI_INT));
    CHECK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_seek(file, 64 * ((rank + 1) % size), MPI_SEEK_SET));
    CHECK(MPI_File_read_all_begin(file, back, 64, MPI_INT));
    CHECK(MPI_File_read_all_end(file, back, &status));
    WANT(back[5] == 100 * ((rank + 1) % size) + 5, "%d was read", back[5]);
    CHECK(MPI_File_get_position(file, &offset));
    WANT(offset == 64 * ((rank + 1) % size + 1), "the pointer is at %lld", (long long)offset);
    CHECK(MPI_File_seek(file, -1, MPI_SEEK_END));
    CHECK(MPI_File_read(file, back, 2, MPI_INT, &status));
    WANT(count_of(&status, MPI_INT) == 1 && back[0] == 100 * (size - 1) + 63, "the last int is %d", back[0]);
    CHECK(MPI_File_get_byte_offset(file, 10, &offset));
    WANT(offset == 40, "etype 10 is at byte %lld", (long long)offset);
    /* Atomic mode: each rank writes all of a block, and sees one rank's. */
    CHECK(MPI_File_set_atomicity(file, 1));
    CHECK(MPI_File_get_atomicity(file, &flag));
    WANT(flag, "the file is not in atomic mode");
    MPI_Datatype every;
    MPI_Type_vector(64, 1, 3, MPI_INT, &every);
    MPI_Type_commit(&every);
    CHECK(MPI_File_set_view(file, 4096, MPI_INT, every, "native", MPI_INFO_NULL));
    MPI_Type_free(&every);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 64; i++)
            data[i] = rank;
        CHECK(MPI_File_write_at(file, 0, data, 64, MPI_INT, &status));
        CHECK(MPI_File_read_at(file, 0, back, 64, MPI_INT, &status));
        for (int i = 1; i < 64; i++)
            WANT(back[i] == back[0], "two ranks' data in one read: %d and %d", back[0], back[i]);
        CHECK(MPI_File_write_at_all(file, 0, data, 64, MPI_INT, &status));
        CHECK(MPI_File_read_at_all(file, 0, back, 64, MPI_INT, &status));
        for (int i = 1; i < 64; i++)
            WANT(back[i] == back[0], "two ranks' data in one collective read: %d and %d", back[0], back[i]);
    }
    CHECK(MPI_File_close(&file));
}

static void appending_and_sequential(void)
{
    int data[4] = {rank, rank, rank, rank}, amode;
    MPI_Status status;
    MPI_Offset offset;
    MPI_Group group, world;
    int result;
    fresh();
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    CHECK(MPI_File_write_ordered(file, data, 4, MPI_INT, &status));
    CHECK(MPI_File_write_shared(file, data, 4, MPI_INT, &status));
    CHECK(MPI_File_set_atomicity(file, 1));
    CHECK(MPI_File_write_ordered(file, data, 4, MPI_INT, &status));
    WANT(count_of(&status, MPI_INT) == 4, "ordered data of a sequential file in atomic mode are incomplete");
    CHECK(MPI_File_close(&file));
    file = opened(MPI_MODE_WRONLY | MPI_MODE_APPEND);
    CHECK(MPI_File_get_position(file, &offset));
    WANT(offset == 48 * size, "a file that grows begins at %lld", (long long)offset);
    CHECK(MPI_File_write_ordered(file, data, 4, MPI_INT, &status));
    CHECK(MPI_File_get_amode(file, &amode));
    WANT(amode == (MPI_MODE_WRONLY | MPI_MODE_APPEND), "the access mode is %d", amode);
    CHECK(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    WANT(result == MPI_IDENT, "the group is another one");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    CHECK(MPI_File_close(&file));
    file = opened(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    CHECK(MPI_File_get_size(file, &offset));
    WANT(offset == 64 * size, "the file has %lld bytes", (long long)offset);
    CHECK(MPI_File_preallocate(file, 100000));
    CHECK(MPI_File_get_size(file, &offset));
    WANT(offset == 100000, "with room the file has %lld bytes", (long long)offset);
    CHECK(MPI_File_set_size(file, 10));
    CHECK(MPI_File_get_size(file, &offset));
    WANT(offset == 10, "cut off the file has %lld bytes", (long long)offset);
    CHECK(MPI_File_close(&file));
    result = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_Error_class(result, &result);
    WANT(result == MPI_ERR_NO_SUCH_FILE, "a deleted file is opened with class %d", result);
}

/* Far beyond 2^31 of everything, in a file with holes. */
static void large(void)
{
    const MPI_Offset far = (MPI_Offset)5 << 33;
    MPI_Datatype big, type;
    MPI_Status status;
    MPI_Count count, extent;
    char mark[8] = "tutti", back[8];
    fresh();
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    CHECK(MPI_File_write_at_c(file, far + 8 * rank, mark, 8, MPI_BYTE, &status));
    MPI_Type_contiguous_c((MPI_Count)3 << 30, MPI_BYTE, &big);
    MPI_Type_create_resized_c(MPI_BYTE, 0, (MPI_Count)3 << 30, &type);
    MPI_Type_commit(&big);
    MPI_Type_commit(&type);
    CHECK(MPI_File_get_type_extent_c(file, big, &extent));
    WANT(extent == (MPI_Count)3 << 30, "the extent is %lld", (long long)extent);
    CHECK(MPI_File_set_view(file, rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
    CHECK(MPI_File_write_at_all_c(file, 4, mark, 3, MPI_BYTE, &status));
    MPI_Get_count_c(&status, MPI_BYTE, &count);
    WANT(count == 3, "%lld bytes were written", (long long)count);
    CHECK(MPI_File_read_at_all_c(file, 4, back, 3, MPI_BYTE, &status));
    WANT(memcmp(mark, back, 3) == 0, "other bytes were read");
    CHECK(MPI_File_set_view(file, far, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(MPI_File_read_at_all_c(file, 8 * rank, back, 8, MPI_BYTE, &status));
    WANT(memcmp(mark, back, 8) == 0, "other bytes were read from afar");
    MPI_Type_free(&big);
    MPI_Type_free(&type);
    CHECK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    path = argv[1];
    shared_pointers();
    nonblocking();
    split_and_seek();
    appending_and_sequential();
    large();
    for (int i = 0; i < 300; i++) {
        MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
        CHECK(MPI_File_close(&file));
    }
    fresh();
    if (rank == 0)
        printf("kinds are right\n");
    MPI_Finalize();
    return 0;
}
