/* What a process finds at its start: which program of the job it is, how many processes there may be, its initial error handler.
 *
 * Prints one line a rank; with the argument `return` it makes mistakes that the initial error handler gives back. */
#include "check.h"

static const char *initial_handler(MPI_Comm comm)
{
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(comm, &handler);
    return handler == MPI_ERRORS_ARE_FATAL ? "fatal" : handler == MPI_ERRORS_ABORT ? "abort" : handler == MPI_ERRORS_RETURN ? "return" : "?";
}

int main(int argc, char **argv)
{
    int rank, size, flag, length = 64, *number;
    char text[64];
    if (argc > 1 && strcmp(argv[1], "return") == 0) {
        CHECK(class_of(MPI_Comm_size(MPI_COMM_WORLD, &size)) == MPI_ERR_OTHER);
        MPI_Info no_info = MPI_INFO_NULL;
        CHECK(class_of(MPI_Info_free(&no_info)) == MPI_ERR_INFO);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d", rank, size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    if (flag)
        printf(", program %d", *number);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &number, &flag);
    if (flag)
        printf(", universe %d", *number);
    MPI_Info_get_string(MPI_INFO_ENV, "mpi_initial_errhandler", &length, text, &flag);
    printf(", %s %s %s\n", initial_handler(MPI_COMM_WORLD), initial_handler(MPI_COMM_SELF), flag ? text : "?");
    if (argc > 1 && strcmp(argv[1], "return") == 0) {
        CHECK(class_of(MPI_Send(&rank, 1, MPI_INT, size, 0, MPI_COMM_WORLD)) == MPI_ERR_RANK);
        CHECK(class_of(MPI_Comm_rank(MPI_COMM_NULL, &rank)) == MPI_ERR_COMM);
    }
    fflush(stdout);
    return finish("start");
}
