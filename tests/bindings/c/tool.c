/* A profiling tool: says which calls it sees, and passes them on by their PMPI names. */

#include <mpi.h>
#include <stdio.h>

double MPI_Wtime(void)
{
    puts("tool: MPI_Wtime");
    return PMPI_Wtime();
}

int MPI_Abi_get_version(int *abi_major, int *abi_minor)
{
    puts("tool: MPI_Abi_get_version");
    return PMPI_Abi_get_version(abi_major, abi_minor);
}
