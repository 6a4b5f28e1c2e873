/* One call into the library, at which a debugger stops. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    printf("%d\n", ranks);
    MPI_Finalize();
    return 0;
}
