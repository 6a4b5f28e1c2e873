/* Begins with MPI by a session alone. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    MPI_Session session;
    int sets = 0;

    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS)
        return 1;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
    printf("sets: %d\n", sets);
    return MPI_Session_finalize(&session) != MPI_SUCCESS;
}
