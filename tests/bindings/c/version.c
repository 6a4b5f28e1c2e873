/* The least that shows that a program has found its library; needs no MPI_Init. */

#include <mpi.h>
#include <stdio.h>

int main(void)
{
    int major = -1, minor = -1;
    double before = MPI_Wtime();
    MPI_Abi_get_version(&major, &minor);
    printf("ABI %d.%d, world is %#x, time %s\n", major, minor, (unsigned)MPI_Comm_toint(MPI_COMM_WORLD),
           MPI_Wtime() >= before ? "goes on" : "goes back");
    return 0;
}
