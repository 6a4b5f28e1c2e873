/* Two launches have a file together, and the accepting one is killed in the middle of a collective write, or
   while all use the shared pointer. The others get an error, and nobody waits. "scratch": the connecting one
   is killed, and a file that is deleted on close stays, since not all have closed it. */
#include "expect.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 20, BLOCK = 1 << 10 };

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

int main(int argc, char **argv)
{
    MPI_File file, scratch;
    MPI_Datatype blocks;
    char name[4096];
    int rank, size, class = MPI_SUCCESS;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* The ranks of the accepting launch come first. */
    int shares = strcmp(argv[2], "shared") == 0, scratches = strcmp(argv[2], "scratch") == 0;
    int dies = rank == (scratches ? size - 1 : 0);
    int *data = calloc(COUNT, sizeof *data);
    EXPECT(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
           MPI_SUCCESS);
    snprintf(name, sizeof name, "%s.scratch", argv[1]);
    EXPECT(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                         MPI_INFO_NULL, &scratch) == MPI_SUCCESS);
    MPI_Type_vector(COUNT / BLOCK, BLOCK, BLOCK * size, MPI_INT, &blocks);
    MPI_Type_commit(&blocks);
    EXPECT(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK * 4, MPI_INT, blocks, "native", MPI_INFO_NULL) ==
           MPI_SUCCESS);
    EXPECT(MPI_File_write_all(file, data, COUNT, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int round = 0; class == MPI_SUCCESS; round++) {
        if (dies && round == 3) {
            MPI_Request request;
            MPI_File_iwrite_at_all(file, 0, data, COUNT, MPI_INT, &request);
            raise(SIGKILL);
        }
        if (shares)
            class = class_of(MPI_File_write_shared(file, data, 1, MPI_INT, MPI_STATUS_IGNORE));
        else
            class = class_of(MPI_File_write_at_all(file, 0, data, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    }
    EXPECT(class == MPI_ERR_PROC_ABORTED);
    class = class_of(MPI_File_write_ordered(file, data, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT(class == MPI_ERR_PROC_ABORTED);
    EXPECT(class_of(MPI_File_seek_shared(file, 0, MPI_SEEK_SET)) == MPI_ERR_PROC_ABORTED);
    EXPECT(class_of(MPI_File_close(&file)) == MPI_ERR_PROC_ABORTED);
    EXPECT(class_of(MPI_File_close(&scratch)) == MPI_ERR_PROC_ABORTED);
    if (scratches)
        EXPECT(access(name, F_OK) == 0 && MPI_File_delete(name, MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_Type_free(&blocks);
    free(data);
    MPI_Finalize();
    puts("lost");
    return 0;
}
