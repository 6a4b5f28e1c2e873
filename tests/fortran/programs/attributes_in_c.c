/* Attributes of callbacks.f90 as C reads and sets them. */
#include <mpi.h>

long value_in_c(int comm, int key)
{
    MPI_Aint *value = 0;
    int flag = 0;
    MPI_Comm_get_attr(MPI_Comm_f2c(comm), key, &value, &flag);
    return flag ? *value : 0;
}

void set_in_c(int comm, int key, long value)
{
    MPI_Comm_set_attr(MPI_Comm_f2c(comm), key, (void *)value);
}
