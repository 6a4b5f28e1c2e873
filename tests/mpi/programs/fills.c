/* Makes info objects and frees none, until there can be no more. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Info info;

    MPI_Init(&argc, &argv);
    for (long made = 0; made < 3000000; made++)
        if (MPI_Info_create(&info))
            return 2;
    puts("there is room for all");
    MPI_Finalize();
    return 0;
}
