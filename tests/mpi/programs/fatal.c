/* Rank 1 makes one mistake, which ends the job; rank 0 waits for a message that does not come. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, n = 0;
    const char *mistake = argc > 1 ? argv[1] : "";
    if (strcmp(mistake, "before") == 0)
        return MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (strcmp(mistake, "null_before") == 0)
        return MPI_Info_create(NULL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        MPI_Comm comm;
        MPI_Info info;
        if (strcmp(mistake, "rank") == 0)
            MPI_Send(&n, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        if (strcmp(mistake, "tag") == 0)
            MPI_Send(&n, 1, MPI_INT, 0, -5, MPI_COMM_WORLD);
        if (strcmp(mistake, "comm") == 0)
            MPI_Send(&n, 1, MPI_INT, 0, 0, MPI_COMM_NULL);
        if (strcmp(mistake, "freed") == 0) {
            MPI_Comm_dup(MPI_COMM_SELF, &comm);
            MPI_Comm stale = comm;
            MPI_Comm_free(&comm);
            MPI_Send(&n, 1, MPI_INT, 0, 0, stale);
        }
        if (strcmp(mistake, "info") == 0) {
            MPI_Info_create(&info);
            MPI_Info_set(info, "", "value");
        }
        if (strcmp(mistake, "null") == 0)
            MPI_Wait(NULL, MPI_STATUS_IGNORE);
        if (strcmp(mistake, "abort") == 0) {
            MPI_Comm_dup(MPI_COMM_SELF, &comm);
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_ABORT);
            MPI_Comm_call_errhandler(comm, MPI_ERR_REQUEST);
        }
    }
    MPI_Recv(&n, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
