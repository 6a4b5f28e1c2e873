/* Rank 1 writes in atomic mode, and its write never ends: the file is its first argument. A file of the name of the
 * second one says that it has begun. With a third one rank 0 computes for ever. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *mark;

/* The library's own call comes here. */
ssize_t pwrite(int file, const void *data, size_t bytes, off_t offset)
{
    if (mark == NULL)
        return syscall(SYS_pwrite64, file, data, bytes, offset);
    if (creat(mark, 0600) < 0)
        perror(mark);
    for (;;)
        pause();
}

ssize_t pwrite64(int file, const void *data, size_t bytes, off_t offset)
{
    return pwrite(file, data, bytes, offset);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_atomicity(file, 1);
    if (rank == 1) {
        mark = argv[2];
        MPI_File_write_at(file, 0, "held", 4, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    if (argc > 3)
        for (volatile int computes = 1; computes;)
            continue;
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
