/* Prints the errors of calls with numbers that mean nothing in MPICH's interface, a line each. */
#include <mpi.h>
#include <stdio.h>

static void print(int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &length);
    printf("%s\n", text);
}

int main(int argc, char **argv)
{
    int x = 0, four = 4, two = 2, one = 1, zero = 0, strange = 97, any = MPI_DISTRIBUTE_DFLT_DARG;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    print(MPI_Send(&x, 1, MPI_INT, 0, -5, MPI_COMM_WORLD));
    print(MPI_Send(&x, 1, MPI_INT, -77, 0, MPI_COMM_WORLD));
    print(MPI_Comm_split_type(MPI_COMM_WORLD, 99, 0, MPI_INFO_NULL, &comm));
    print(MPI_Type_create_subarray(1, &four, &two, &zero, 98, MPI_INT, &type));
    print(MPI_Type_create_darray(1, 0, 1, &four, &strange, &any, &one, MPI_ORDER_C, MPI_INT, &type));
    print(MPI_Win_lock(999, 0, 0, win));
    print(MPI_Type_match_size(96, 4, &type));
    print(MPI_Win_fence(0x70000000, win));
    print(MPI_Comm_set_attr(MPI_COMM_WORLD, 12345, &x));
    print(MPI_Send(&x, 1, MPI_INT, 0, -2, MPI_COMM_WORLD));
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
