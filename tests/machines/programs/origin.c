/* Files of the origin by calls and by MPI_File_open("origin:..."): each rank reads the input, writes its block of a common file
 * through a strided view, collectively, and reads the block of its neighbour. */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

#define BLOCK 1000

static void check(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "wrong: %s (errno %d)\n", what, errno);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void by_calls(int rank) {
    char text[64] = {0}, name[32];
    tutti_origin_status status;
    int file = tutti_origin_open("input.txt", O_RDONLY, 0);
    check(file >= 0, "the input opens");
    check(tutti_origin_read(file, text, 63, 0) == 6 && !strcmp(text, "hello\n"), "the input is read");
    check(tutti_origin_write(file, "x", 1, 0) == TUTTI_ERR_FILE && errno == EBADF, "a file for reading is not written");
    check(tutti_origin_close(file) == TUTTI_OK && tutti_origin_close(file) == TUTTI_ERR_ARG, "it is closed once");
    check(tutti_origin_stat("input.txt", &status) == TUTTI_OK && status.bytes == 6, "its size");
    check(tutti_origin_open("nothing", O_RDONLY, 0) == TUTTI_ERR_FILE && errno == ENOENT, "what is not there");
    check(tutti_origin_open("out", O_RDONLY, 0) == TUTTI_ERR_FILE && errno == EXDEV, "a link out of the folder");
    check(tutti_origin_open("/etc/passwd", O_RDONLY, 0) == TUTTI_ERR_FILE && errno == EXDEV, "another folder");
    snprintf(name, sizeof name, "calls-%d", rank);
    file = tutti_origin_open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    check(file >= 0 && tutti_origin_write(file, name, strlen(name), 3) == (int64_t)strlen(name), "a new file");
    check(tutti_origin_read(file, text, 63, 0) == (int64_t)strlen(name) + 3 && !strcmp(text + 3, name), "it is read again");
    check(tutti_origin_close(file) == TUTTI_OK, "close");
}

static void by_mpi(int rank, int ranks) {
    MPI_File file;
    MPI_Datatype strided;
    int mine[BLOCK], found[BLOCK], next = (rank + 1) % ranks, missing;
    MPI_Offset bytes;
    for (int i = 0; i < BLOCK; i++)
        mine[i] = i * ranks + rank;
    MPI_Type_vector(BLOCK, 1, ranks, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    check(!MPI_File_open(MPI_COMM_WORLD, "origin:data", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), "it opens");
    MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    MPI_File_set_atomicity(file, 1);
    MPI_File_set_view(file, rank * sizeof(int), MPI_INT, strided, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, mine, BLOCK, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_view(file, next * sizeof(int), MPI_INT, strided, "native", MPI_INFO_NULL);
    MPI_File_read(file, found, BLOCK, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < BLOCK; i++)
        check(found[i] == i * ranks + next, "the neighbour's block");
    MPI_File_get_size(file, &bytes);
    check(bytes == (MPI_Offset)(BLOCK * sizeof(int)) * ranks, "the size");
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_write_shared(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_set_size(file, 8);
    MPI_File_get_size(file, &bytes);
    check(bytes == 8, "it is cut");
    MPI_File_close(&file);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    missing = MPI_File_open(MPI_COMM_WORLD, "origin:none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_Error_class(missing, &missing);
    check(missing == MPI_ERR_NO_SUCH_FILE, "what is not there has its class");
    if (rank == 0)
        check(!MPI_File_delete("origin:data", MPI_INFO_NULL), "it is deleted");
    MPI_Type_free(&strided);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    by_calls(rank);
    by_mpi(rank, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        puts("files of the origin are right");
    MPI_Finalize();
    return 0;
}
