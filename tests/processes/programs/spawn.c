/* What is not built raises MPI_ERR_UNSUPPORTED_OPERATION and names itself. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, class, code;
    MPI_Comm children;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    if (class == MPI_ERR_UNSUPPORTED_OPERATION && strstr(text, "MPI_Comm_spawn") && !strchr(text, '\n'))
        printf("spawn is refused\n");
    else
        printf("class %d: %s\n", class, text);
    MPI_Finalize();
    return 0;
}
