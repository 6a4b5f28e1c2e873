/* A library that uses MPI, to be opened by a program that knows nothing of MPI (a Python module is one). */

#include <mpi.h>

int plugin(void);

int plugin(void)
{
    int major = -1, minor = -1;
    MPI_Abi_get_version(&major, &minor);
    return major == 1 && minor == 0 && MPI_Comm_toint(MPI_COMM_SELF) == 0x102 ? 0 : 1;
}
