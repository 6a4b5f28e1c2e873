/* Errors of calls that name no object: MPI_COMM_SELF's (MPI 9.3), and the handler of MPI_COMM_WORLD gets them
   while that of MPI_COMM_SELF has not been changed, as programs of MPI-3.1 (8.3) count on. */
#include "check.h"

static int calls;
static MPI_Comm raised_on;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    calls++;
    raised_on = *comm;
}

int main(int argc, char **argv)
{
    int size;
    MPI_Errhandler made;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_create_errhandler(handler, &made);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &size)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Type_size(MPI_INT, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_commit(&none)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &size)) == MPI_ERR_GROUP);
    CHECK(class_of(MPI_Comm_size(MPI_COMM_NULL, &size)) == MPI_ERR_COMM);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, made);
    CHECK(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &size)) == MPI_ERR_TYPE);
    CHECK(calls == 1 && raised_on == MPI_COMM_WORLD);

    MPI_Comm_set_errhandler(MPI_COMM_SELF, made);
    CHECK(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &size)) == MPI_ERR_TYPE);
    CHECK(calls == 2 && raised_on == MPI_COMM_SELF);
    CHECK(class_of(MPI_Comm_size(MPI_COMM_NULL, &size)) == MPI_ERR_COMM);
    CHECK(calls == 3 && raised_on == MPI_COMM_SELF);

    MPI_Errhandler_free(&made);
    return finish("world_handler");
}
