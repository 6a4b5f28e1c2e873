/* The kernel refuses what the library asks of it, or a rank dies: the library's own calls come here first.
 * Arguments: the file; "errors", or "killed" and the moment of a collective write (enum moment). */
#define _GNU_SOURCE
#include "../../mpi/programs/require.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCK = 1000, BLOCKS = 2000, BUFFER = 1 << 17 };

enum moment {
    BEFORE_IT,         /* the others are in it, one rank never comes */
    BEFORE_FIRST,      /* an aggregator has the first pieces of all */
    AFTER_FIRST,       /* it has written them, more are under way */
    OTHER_AT_FIRST,    /* one whose pieces it writes */
    OTHER_AFTER_LATER, /* the same after a later round */
    BETWEEN            /* after MPI_File_write_all_begin, before its end */
};

static int rank, size;
/* Bytes that may still be written; -1: no limit. */
static long quota = -1;
static int locks_are_refused;
/* Calls of pwrite until the victim is killed, counted down; 0: never. */
static int until_death, is_after;
static pid_t victim;

static ssize_t pass_on(int file, const void *data, size_t bytes, off_t offset)
{
    return syscall(SYS_pwrite64, file, data, bytes, offset);
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t offset)
{
    if (until_death > 0 && --until_death == 0) {
        if (is_after)
            pass_on(file, data, bytes, offset);
        kill(victim, SIGKILL);
        for (;;)
            pause();
    }
    if (quota < 0)
        return pass_on(file, data, bytes, offset);
    if (quota == 0) {
        errno = EDQUOT;
        return -1;
    }
    ssize_t written = pass_on(file, data, bytes < (size_t)quota ? bytes : (size_t)quota, offset);
    quota -= written > 0 ? written : 0;
    return written;
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off_t offset)
{
    return pwrite(file, data, bytes, offset);
}

int fcntl(int file, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (locks_are_refused && command == F_OFD_SETLK && ((struct flock *)argument)->l_type != F_UNLCK) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_fcntl, file, command, argument);
}

int fcntl64(int file, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl(file, command, argument);
}

/* The class, and one line that names the file and these words. */
static void fails(int code, int wanted, const char *path, const char *words)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    WANT(class == wanted && !strchr(text, '\n'), "class %d, expected %d: %s", class, wanted, text);
    WANT(words == NULL || (strstr(text, words) && strstr(text, path)), "no \"%s\": %s", words, text);
}

/* One rank may not open it: all learn that. Not for a file system that lets root do all things. */
static void permission(const char *path)
{
    MPI_File file;
    int is_root = geteuid() == 0;
    if (rank == 0)
        WANT(close(creat(path, 0600)) == 0 && chmod(path, is_root ? 0600 : 0) == 0, "no file");
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_root && rank == size - 1)
        setfsuid(65534);
    fails(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_ACCESS, path,
          "ermission");
    fails(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_ACCESS, path,
          "ermission");
    if (is_root)
        setfsuid(0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(path);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Each rank's blocks go round the ranks. */
static MPI_File in_turns(const char *path, MPI_Info info)
{
    MPI_File file;
    MPI_Datatype place;
    int sizes = BLOCK * size, sub = BLOCK, start = BLOCK * rank;
    MPI_Type_create_subarray(1, &sizes, &sub, &start, MPI_ORDER_C, MPI_BYTE, &place);
    MPI_Type_commit(&place);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, place, "native", info));
    MPI_Type_free(&place);
    return file;
}

static char data[BLOCK * BLOCKS], back[BLOCK * BLOCKS];

/* The quota of whoever writes is used up in the midst of it. */
static void full_quota(const char *path, const char *collect)
{
    MPI_Info info;
    MPI_Status status;
    int count, got, code;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", collect);
    MPI_File file = in_turns(path, info);
    memset(data, 'a' + rank, sizeof data);
    quota = BLOCK * BLOCKS / 3 + 17;
    code = MPI_File_write_all(file, data, sizeof data, MPI_BYTE, &status);
    quota = -1;
    fails(code, MPI_ERR_QUOTA, path, NULL);
    MPI_Get_count(&status, MPI_BYTE, &count);
    WANT(count >= 0 && count < (int)sizeof data, "%d bytes were written", count);
    memset(back, 0, sizeof back);
    CHECK(MPI_File_read_at(file, 0, back, count, MPI_BYTE, &status));
    MPI_Get_count(&status, MPI_BYTE, &got);
    WANT(got == count && memcmp(data, back, (size_t)count) == 0, "%d of %d bytes are there", got, count);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_close(&file));
    if (rank == 0)
        CHECK(MPI_File_delete(path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Info_free(&info);
}

/* No service of locks: what needs one says so and moves nothing; the rest works. */
static void no_locks(const char *path)
{
    MPI_File file;
    MPI_Offset bytes;
    int word = rank;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    locks_are_refused = 1;
    CHECK(MPI_File_set_atomicity(file, 1));
    fails(MPI_File_write_at(file, 4 * rank, &word, 4, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO, path,
          "lock");
    fails(MPI_File_write_at_all(file, 4 * rank, &word, 4, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO, path,
          "lock");
    CHECK(MPI_File_get_size(file, &bytes));
    WANT(bytes == 0, "%d bytes are in the file", (int)bytes);
    CHECK(MPI_File_set_atomicity(file, 0));
    CHECK(MPI_File_write_at_all(file, 4 * rank, &word, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(MPI_File_get_size(file, &bytes));
    WANT(bytes == 4 * size, "%d bytes are in the file", (int)bytes);
    locks_are_refused = 0;
    CHECK(MPI_File_close(&file));
    if (rank == 0)
        CHECK(MPI_File_delete(path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void killed(const char *path, enum moment moment)
{
    MPI_Info info;
    char buffer[16];
    pid_t own = getpid(), *pids = malloc(sizeof *pids * (size_t)size);
    snprintf(buffer, sizeof buffer, "%d", BUFFER);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "cb_nodes", "1");
    MPI_Info_set(info, "cb_buffer_size", buffer);
    /* Accesses are locked as on NFS: a dead rank must leave none. */
    MPI_Info_set(info, "nfs", "true");
    MPI_File file = in_turns(path, info);
    MPI_Allgather(&own, 4, MPI_BYTE, pids, 4, MPI_BYTE, MPI_COMM_WORLD);
    int is_other = moment == OTHER_AT_FIRST || moment == OTHER_AFTER_LATER;
    victim = pids[is_other ? (rank + 1) % size : rank];
    is_after = moment == AFTER_FIRST || moment == OTHER_AFTER_LATER;
    if (moment == BEFORE_IT && rank == size - 1)
        raise(SIGKILL);
    if (moment >= BEFORE_FIRST && moment <= OTHER_AFTER_LATER)
        until_death = moment == OTHER_AFTER_LATER ? 5 : 1;
    CHECK(MPI_File_write_at_all_begin(file, 0, data, sizeof data, MPI_BYTE));
    if (moment == BETWEEN && rank == size - 1)
        raise(SIGKILL);
    MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    WANT(0, "nobody has died");
}

int main(int argc, char **argv)
{
    WANT(argc > 2, "what?");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 3)
        killed(argv[1], (enum moment)atoi(argv[3]));
    permission(argv[1]);
    full_quota(argv[1], "enable");
    full_quota(argv[1], "disable");
    no_locks(argv[1]);
    if (rank == 0)
        printf("refused are right\n");
    MPI_Finalize();
    return 0;
}
