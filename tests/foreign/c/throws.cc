// Functions that MPI calls throw an exception: the error handler of a wrong rank, a function that deletes an attribute, a sum.
#include <cstring>
#include <mpi.h>
#include <stdexcept>

static void handler(MPI_Comm *, int *, ...)
{
    throw std::runtime_error("an error handler");
}

static int deletion(MPI_Comm, int, void *, void *)
{
    throw std::runtime_error("a deletion");
}

static void sum(void *, void *, int *, MPI_Datatype *)
{
    throw std::runtime_error("a sum");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int x = 0, y = 0;
    try {
        if (!strcmp(argv[1], "handler")) {
            MPI_Errhandler own;
            MPI_Comm_create_errhandler(handler, &own);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
            MPI_Send(&x, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        } else if (!strcmp(argv[1], "deletion")) {
            int key;
            MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deletion, &key, nullptr);
            MPI_Comm_set_attr(MPI_COMM_WORLD, key, &x);
            MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
        } else {
            MPI_Op own;
            MPI_Op_create(sum, 1, &own);
            MPI_Reduce_local(&x, &y, 1, MPI_INT, own);
        }
    } catch (const std::runtime_error &) {
    }
    MPI_Finalize();
    return 0;
}
