/* A program for profiling tools: two calls that need no MPI_Init, and one that the tool does not know. */

#include <mpi.h>
#include <stdio.h>

int main(void)
{
    int major = -1, minor = -1;
    double second = MPI_Wtick();
    MPI_Abi_get_version(&major, &minor);
    printf("ABI %d.%d, clock %s\n", major, minor, second > 0 && MPI_Wtime() > 0 ? "goes" : "stands");
    return 0;
}
