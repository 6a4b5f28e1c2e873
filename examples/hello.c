/* Every rank says who it is and where it runs; rank 0 says which library this is. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, ranks, length;
    char node[MPI_MAX_PROCESSOR_NAME], library[MPI_MAX_LIBRARY_VERSION_STRING];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(node, &length);
    if (rank == 0) {
        MPI_Get_library_version(library, &length);
        library[strcspn(library, "\n")] = '\0';
        printf("%s\n", library);
    }
    printf("rank %d of %d on %s\n", rank, ranks, node);
    MPI_Finalize();
    return 0;
}
