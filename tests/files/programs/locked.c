/* Every access of a file that is said to be on NFS has its range locked when the kernel is called: single and collective, through
 * aggregators and past them, and those of the shared pointer. The path of the file is the argument. */
#define _GNU_SOURCE
#include "../../mpi/programs/require.h"
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 1000 };

static const char *path;
static const char *what = "the file is opened";
static int looks, calls, rank;

/* Whether another description cannot lock the range, as one that only the file system's locks keep out. */
static void look(off_t offset, size_t bytes, short kind)
{
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = offset, .l_len = (off_t)bytes};
    if (!looks)
        return;
    calls++;
    int other = open(path, O_RDWR);
    int result = fcntl(other, F_OFD_SETLK, &range);
    WANT(result < 0 && (errno == EAGAIN || errno == EACCES), "%s: %zu bytes at %ld are not locked", what, bytes, (long)offset);
    close(other);
}

/* The library's own calls come here. */
ssize_t pwrite(int file, const void *data, size_t bytes, off_t offset)
{
    look(offset, bytes, F_RDLCK);
    return syscall(SYS_pwrite64, file, data, bytes, offset);
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off_t offset)
{
    return pwrite(file, data, bytes, offset);
}

ssize_t pread(int file, void *data, size_t bytes, off_t offset)
{
    look(offset, bytes, F_WRLCK);
    return syscall(SYS_pread64, file, data, bytes, offset);
}

ssize_t pread64(int file, void *data, size_t bytes, off_t offset)
{
    return pread(file, data, bytes, offset);
}

static void accesses(const char *choice)
{
    char data[BYTES], read[BYTES];
    MPI_Info info;
    MPI_File file;
    MPI_Offset place = (MPI_Offset)rank * BYTES;
    CHECK(MPI_Info_create(&info));
    CHECK(MPI_Info_set(info, "nfs", "true"));
    CHECK(MPI_Info_set(info, "romio_cb_write", choice));
    CHECK(MPI_Info_set(info, "romio_cb_read", choice));
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file));
    CHECK(MPI_Info_free(&info));
    memset(data, 'a' + rank, BYTES);
    looks = 1;
    what = "write_at";
    CHECK(MPI_File_write_at(file, place, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    what = "write_at_all";
    CHECK(MPI_File_write_at_all(file, place, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    what = "read_at_all";
    CHECK(MPI_File_read_at_all(file, place, read, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    WANT(memcmp(read, data, BYTES) == 0, "rank %d has read other data", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    what = "write_ordered";
    CHECK(MPI_File_write_ordered(file, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    what = "read_at";
    CHECK(MPI_File_read_at(file, place, read, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    looks = 0;
    CHECK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    int all;
    WANT(argc > 1, "which file?");
    path = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    accesses("disable");
    accesses("enable");
    MPI_Allreduce(&calls, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    WANT(all > 0, "no call of the library was seen");
    if (rank == 0)
        printf("locked are right\n");
    MPI_Finalize();
    return 0;
}
