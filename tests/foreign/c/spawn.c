/* Processes start processes, built with another MPI's compiler: two children twice, sums over both groups, a name.
 * "missing" as argument: a program that does not exist. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, inter, all;
    int rank, size, sum, one = 1, codes[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        int number = -1;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Intercomm_merge(parent, 1, &all);
        MPI_Bcast(&number, 1, MPI_INT, 0, all);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        if (size != 2 || number != 42 || argc != 2 || strcmp(argv[1], "a child"))
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 1) {
        int code = MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
        if (rank == 0)
            printf("%s\n", code == MPI_SUCCESS ? "started" : "refused");
        MPI_Finalize();
        return 0;
    }
    for (int round = 0; round < 2; round++) {
        char *arguments[] = {"a child", NULL};
        int number = 42;
        if (MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes) != MPI_SUCCESS)
            MPI_Abort(MPI_COMM_WORLD, 2);
        MPI_Intercomm_merge(inter, 0, &all);
        MPI_Bcast(&number, 1, MPI_INT, 0, all);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        if (rank == 0)
            printf("round %d, sum %d\n", round, sum);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&inter);
    }
    MPI_Finalize();
    return 0;
}
