/* Nothing but MPI_Init and MPI_Finalize: what is left is the time to launch. */
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
