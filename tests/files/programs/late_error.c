/* A file system that has no room when a file is closed: MPI_File_close says so, on each rank, and the file is closed. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_File file;
    int rank, code, class;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file))
        return printf("it cannot be opened\n"), 1;
    if (MPI_File_write_at(file, rank * sizeof rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE))
        printf("rank %d: it cannot be written\n", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    code = MPI_File_close(&file);
    MPI_Error_class(code, &class);
    if (class != MPI_ERR_NO_SPACE)
        printf("rank %d: the close gives class %d\n", rank, class);
    if (file != MPI_FILE_NULL)
        printf("rank %d: the file is still open\n", rank);
    MPI_Finalize();
    if (rank == 0)
        printf("late errors are right\n");
    return 0;
}
