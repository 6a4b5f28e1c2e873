/* For ignored.F90: which call gives which status. */
#include <mpi.h>
#include <stdio.h>

static int calls, wrong;

void seen_(MPI_Fint *status, int *call)
{
    MPI_Status converted;
    calls++;
    wrong += (status == MPI_F_STATUS_IGNORE) != (*call == 1) || (status == MPI_F_STATUSES_IGNORE) != (*call == 2);
    wrong += (MPI_Status_f2c(status, &converted) == MPI_SUCCESS) != (*call == 3);
}

void seen_f08(MPI_F08_status *status, int *call)
{
    calls++;
    wrong += (status == MPI_F08_STATUS_IGNORE) != (*call == 1) || (status == MPI_F08_STATUSES_IGNORE) != (*call == 2);
}

void finish_(void)
{
    if (wrong == 0 && (calls == 6 || calls == 9))
        puts("ok");
    else
        printf("%d of %d are wrong\n", wrong, calls);
}
