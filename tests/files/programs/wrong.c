/* What is wrong gives an error of its class, the same on all ranks of a collective call, and nobody hangs.
 * Arguments: the file; "full" with a file system that holds 4 MiB; "killed"; "many";
 * "atomic" or "endless", and a number of MiB. */
#define _GNU_SOURCE
#include "../../mpi/programs/require.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int rank, size;

static int handled;

static void handler(MPI_File *file, int *code, ...)
{
    (void)file, (void)code;
    handled++;
}

static void arguments(char *path)
{
    MPI_File file = (MPI_File)&size, closed;
    MPI_Status status;
    MPI_Datatype back, pair, uncommitted, twice;
    MPI_Errhandler made, got;
    MPI_Request request;
    MPI_Offset offset;
    int data[64] = {0}, places[2] = {8, 0}, touching[2] = {0, 0}, ones[2] = {1, 1}, count;
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    WANT(file == MPI_FILE_NULL, "a failed MPI_File_open leaves a handle that is not MPI_FILE_NULL");
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, 0, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    FAILS(MPI_File_delete("/nowhere/at/all", MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    if (size > 1) {
        int amode = rank == 1 ? MPI_MODE_WRONLY : MPI_MODE_RDWR;
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, amode | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
        amode = rank == 1 ? 0 : MPI_MODE_RDWR;
        int code = MPI_File_open(MPI_COMM_WORLD, path, amode | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
        FAILS(code, MPI_ERR_AMODE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    closed = file;
    CHECK(MPI_File_close(&file));
    FAILS(MPI_File_get_size(closed, &offset), MPI_ERR_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_FILE_EXISTS);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_File_write(file, data, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_write_all(file, data, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY);
    CHECK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_File_read(file, data, 1, MPI_INT, &status), MPI_ERR_ACCESS);
    CHECK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Type_indexed(2, ones, places, MPI_INT, &back);
    MPI_Type_indexed(2, ones, touching, MPI_INT, &twice);
    MPI_Type_contiguous(3, MPI_BYTE, &pair);
    MPI_Type_dup(MPI_INT, &uncommitted);
    MPI_Type_free(&uncommitted);
    MPI_Type_vector(2, 1, 2, MPI_INT, &uncommitted);
    MPI_Type_commit(&back), MPI_Type_commit(&pair), MPI_Type_commit(&twice);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, back, "native", MPI_INFO_NULL), MPI_ERR_IO);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, twice, "native", MPI_INFO_NULL), MPI_ERR_IO);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, pair, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, uncommitted, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    FAILS(MPI_File_set_view(file, -4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "unheard", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_File_write(file, data, 3, MPI_BYTE, &status), MPI_ERR_TYPE);
    FAILS(MPI_File_write(file, data, -1, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_write_at(file, -1, data, 1, MPI_INT, &status), MPI_ERR_ARG);
    FAILS(MPI_File_write_at(file, (MPI_Offset)1 << 62, data, 1, MPI_INT, &status), MPI_ERR_ARG);
    FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    FAILS(MPI_File_seek(file, 0, 12345), MPI_ERR_ARG);
    FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    FAILS(MPI_File_read_all_end(file, data, &status), MPI_ERR_OTHER);
    /* One rank has no hints. */
    if (size > 1) {
        MPI_Info info, freed;
        MPI_Info_create(&info);
        freed = info;
        MPI_Info_free(&info);
        info = rank == 1 ? freed : MPI_INFO_NULL;
        FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info), MPI_ERR_INFO);
        FAILS(MPI_File_set_info(file, info), rank == 1 ? MPI_ERR_INFO : MPI_SUCCESS);
    }
    /* One rank is wrong: all are told, none waits for it. */
    FAILS(MPI_File_write_all(file, data, rank == 0 ? -1 : 4, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_write_ordered(file, data, rank == size - 1 ? -1 : 4, MPI_INT, &status), MPI_ERR_COUNT);
    CHECK(MPI_File_iwrite_at_all(file, 0, data, rank == 0 ? -1 : 4, MPI_INT, &request));
    FAILS(MPI_Wait(&request, &status), MPI_ERR_COUNT);
    if (size > 1) {
        FAILS(MPI_File_set_size(file, rank), MPI_ERR_NOT_SAME);
        FAILS(MPI_File_set_atomicity(file, rank == 0), MPI_ERR_NOT_SAME);
        FAILS(MPI_File_seek_shared(file, rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    }
    /* Cut off by somebody else meanwhile, in the midst of an etype: the count is that of what is there. */
    CHECK(MPI_File_write_at_all(file, 64 * rank, data, 64, MPI_INT, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        WANT(truncate(path, 42) == 0, "the file cannot be cut off");
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all(file, 0, data, 64, MPI_INT, &status));
    MPI_Get_count(&status, MPI_BYTE, &count);
    WANT(count == 42, "%d bytes were read", count);
    MPI_Get_count(&status, MPI_INT, &count);
    WANT(count == MPI_UNDEFINED, "%d ints were read", count);
    /* Handlers: of this file, and of files that are not open. */
    MPI_File_create_errhandler(handler, &made);
    CHECK(MPI_File_set_errhandler(file, made));
    MPI_File_write(file, data, -1, MPI_INT, &status);
    MPI_File_iwrite_at_all(file, 0, data, rank == 0 ? -1 : 4, MPI_INT, &request);
    MPI_Wait(&request, &status);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    WANT(handled == 3, "the handler was called %d times", handled);
    CHECK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    WANT(got == MPI_ERRORS_RETURN, "the handler of MPI_FILE_NULL is another one");
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, made));
    MPI_File_get_size(closed, &offset);
    WANT(handled == 4, "the handler of MPI_FILE_NULL was called %d times", handled - 3);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&made);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&back), MPI_Type_free(&pair), MPI_Type_free(&twice), MPI_Type_free(&uncommitted);
}

static void hints(char *path)
{
    MPI_File file;
    MPI_Info info, used;
    char value[64];
    int flag;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    MPI_Info_set(info, "cb_buffer_size", "much");
    MPI_Info_set(info, "no_such_hint", "1");
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    CHECK(MPI_File_get_info(file, &used));
    MPI_Info_get(used, "cb_nodes", 63, value, &flag);
    WANT(flag && strcmp(value, "1") == 0, "cb_nodes is %s", value);
    MPI_Info_get(used, "cb_buffer_size", 63, value, &flag);
    WANT(flag && strcmp(value, "4194304") == 0, "cb_buffer_size is %s", value);
    MPI_Info_get(used, "no_such_hint", 63, value, &flag);
    WANT(!flag, "a hint that is not known is in use");
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    CHECK(MPI_File_close(&file));
}

static void many(char *path)
{
    enum { FILES = 100 };
    MPI_File files[FILES];
    struct rlimit limit = {60, 60};
    int opened = 0, code = MPI_SUCCESS, class, length;
    char text[MPI_MAX_ERROR_STRING];
    setrlimit(RLIMIT_NOFILE, &limit);
    while (opened < FILES && code == MPI_SUCCESS) {
        code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[opened]);
        opened += code == MPI_SUCCESS;
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    WANT(opened < 60 && class == MPI_ERR_IO && strstr(text, "ulimit -n"), "after %d files: %s", opened, text);
    while (opened > 0)
        CHECK(MPI_File_close(&files[--opened]));
}

/* As many as the user's limit allows, and each is another file handle. */
static void ten_thousand(char *path)
{
    enum { FILES = 10000 };
    MPI_File *files = malloc(FILES * sizeof *files);
    MPI_Status status;
    int data = rank, back = -1;
    for (int i = 0; i < FILES; i++)
        CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files[i]));
    CHECK(MPI_File_write_at_all(files[FILES - 1], 4 * rank, &data, 1, MPI_INT, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all(files[0], 4 * rank, &back, 1, MPI_INT, &status));
    WANT(back == rank, "%d was read", back);
    for (int i = 0; i < FILES; i++)
        CHECK(MPI_File_close(&files[i]));
    if (rank == 0)
        MPI_File_delete(path, MPI_INFO_NULL);
    free(files);
}

/* Writes its range in atomic mode for ever, or once: the range of a rank begins so many MiB behind the beginning. */
static void atomic(char *path, int mebibytes, int is_endless)
{
    static char data[1 << 18];
    MPI_File file;
    MPI_Offset begin = ((MPI_Offset)mebibytes << 20) + (MPI_Offset)rank * (MPI_Offset)sizeof data;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_atomicity(file, 1));
    do
        CHECK(MPI_File_write_at(file, begin, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
    while (is_endless);
    CHECK(MPI_File_close(&file));
}

/* The disk is full in the midst of a collective write: all learn it, and their counts are true. */
static void full(char *path, const char *collect)
{
    enum { BLOCK = 1000, BLOCKS = 4000 };
    MPI_File file;
    MPI_Status status;
    MPI_Datatype place;
    MPI_Info info;
    char *data = malloc(BLOCK * BLOCKS), *back = malloc(BLOCK * BLOCKS);
    int sizes = BLOCK * size, sub = BLOCK, start = BLOCK * rank, code, class, count, got;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", collect);
    memset(data, 'a' + rank, BLOCK * BLOCKS);
    MPI_Type_create_subarray(1, &sizes, &sub, &start, MPI_ORDER_C, MPI_BYTE, &place);
    MPI_Type_commit(&place);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, place, "native", MPI_INFO_NULL));
    code = MPI_File_write_all(file, data, BLOCK * BLOCKS, MPI_BYTE, &status);
    MPI_Error_class(code, &class);
    WANT(class == MPI_ERR_NO_SPACE, "a full disk gives class %d", class);
    MPI_Get_count(&status, MPI_BYTE, &count);
    WANT(count < BLOCK * BLOCKS, "%d bytes were written", count);
    CHECK(MPI_File_read_at(file, 0, back, count, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &got);
    WANT(got == count && memcmp(data, back, count) == 0, "%d of %d bytes are there", got, count);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&place);
    MPI_Info_free(&info);
    free(data);
    free(back);
}

/* One rank dies in the midst of its collective writes. */
static void killed(char *path)
{
    MPI_File file;
    MPI_Datatype place;
    static char data[1 << 20];
    int sizes = 100 * size, sub = 100, start = 100 * rank;
    MPI_Type_create_subarray(1, &sizes, &sub, &start, MPI_ORDER_C, MPI_BYTE, &place);
    MPI_Type_commit(&place);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, place, "native", MPI_INFO_NULL));
    if (rank == size - 1) {
        signal(SIGALRM, SIG_DFL);
        ualarm(100000 + getpid() % 50000, 0);
    }
    for (;;)
        MPI_File_write_at_all(file, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 2 && strcmp(argv[2], "full") == 0) {
        full(argv[1], "enable");
        full(argv[1], "disable");
    } else if (argc > 2 && strcmp(argv[2], "many") == 0) {
        ten_thousand(argv[1]);
    } else if (argc > 3) {
        atomic(argv[1], atoi(argv[3]), strcmp(argv[2], "endless") == 0);
    } else if (argc > 2) {
        killed(argv[1]);
    } else {
        arguments(argv[1]);
        hints(argv[1]);
        many(argv[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            MPI_File_delete(argv[1], MPI_INFO_NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("wrong are right\n");
    MPI_Finalize();
    return 0;
}
