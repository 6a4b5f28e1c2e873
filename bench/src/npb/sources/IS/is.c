/* Numbers that are to be in order, of which one is not: it says so, in the words of NPB's programs. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    static const int sorted[] = {1, 2, 3, 5, 4};
    int rank, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 1; i < sizeof sorted / sizeof sorted[0]; i++)
        wrong += sorted[i - 1] > sorted[i];
    if (rank == 0)
        printf(" Time in seconds =                     0.01\n Verification    =             %s\n",
               wrong ? "UNSUCCESSFUL" : "SUCCESSFUL");
    MPI_Finalize();
    return 0;
}
