/* Ranks that never wait for those that use no MPI.
   part: half of the ranks of the job use MPI, and work for as long as a starter may look for the others;
   early: rank 1 finalizes and exits, and the others work on;
   world: all ranks meet, late. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "world";
    int rank, size, number = 0, sum = 0;
    if (!strcmp(word, "world")) sleep(2);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(word, "part")) {
        int *program, flag;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &flag);
        int begin = flag && *program == 1 ? size / 2 : 0;
        MPI_Group world, group;
        MPI_Comm part;
        int range[1][3] = {{begin, begin + size / 2 - 1, 1}};
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_range_incl(world, 1, range, &group);
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &part);
        /* The first makes the others wait. */
        if (rank == begin) sleep(2);
        MPI_Barrier(part);
        number = 1;
        MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, part);
        if (sum != size / 2) MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Comm_free(&part);
        MPI_Group_free(&group);
        MPI_Group_free(&world);
    } else if (!strcmp(word, "early")) {
        if (rank == 0) sleep(2);
        if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
        if (rank == 2) MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
