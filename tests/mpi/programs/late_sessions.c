/* Sessions after MPI_Finalize, one after another, on all ranks; the last argument says how the process ends: "return", "exit",
 * "_exit", "open" (with a session). "apart": on several nodes, where there are none. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int summed(const char *tag, int number, MPI_Session *session)
{
    MPI_Group group;
    MPI_Comm comm;
    int sum = -1, size = -1;
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session) != MPI_SUCCESS)
        return -2;
    MPI_Group_from_session_pset(*session, "mpi://WORLD", &group);
    MPI_Group_size(group, &size);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm);
    int large[20000] = {0}, all[20000];
    large[7] = number;
    MPI_Allreduce(large, all, 20000, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    return all[7] == sum && size > 0 ? sum : -3;
}

int main(int argc, char **argv)
{
    MPI_Session session;
    int rank, size, finalized, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Finalize();
    if (strcmp(argv[1], "apart") == 0) {
        int class;
        MPI_Error_class(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), &class);
        if (rank == 0)
            puts(class == MPI_ERR_UNSUPPORTED_OPERATION ? "ok" : "wrong");
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        wrong += summed("again", i + rank, &session) != size * i + size * (size - 1) / 2;
        wrong += MPI_Finalized(&finalized) != MPI_SUCCESS || !finalized;
        if (i < 2 || strcmp(argv[1], "open"))
            MPI_Session_finalize(&session);
    }
    if (rank == 0)
        puts(wrong ? "wrong" : "ok");
    fflush(stdout);
    if (strcmp(argv[1], "_exit") == 0)
        _exit(0);
    if (strcmp(argv[1], "exit") == 0)
        exit(0);
    return wrong;
}
