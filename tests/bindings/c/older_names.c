/* Names outside the ABI that real programs use: Fortran conversions and what MPI-3.0 removed. C99 and C++. */

#include <mpi.h>
#include <stdio.h>

#define ROUND(kind, handle) (MPI_##kind##_f2c(MPI_##kind##_c2f(handle)) == (handle) && PMPI_##kind##_f2c(PMPI_##kind##_c2f(handle)) == (handle))

int main(void)
{
    MPI_Status status, back;
    MPI_Fint f_status[MPI_F_STATUS_SIZE];
    int i, fine = 1;
    /* Only their existence is asked for: these want a running MPI. */
    int (*removed[])(MPI_Datatype, MPI_Aint *) = {MPI_Type_extent, MPI_Type_lb, MPI_Type_ub};
    int (*address)(const void *, MPI_Aint *) = MPI_Address;
    int (*create)(MPI_Handler_function *, MPI_Errhandler *) = MPI_Errhandler_create;
    int (*get)(MPI_Comm, MPI_Errhandler *) = MPI_Errhandler_get;
    int (*set)(MPI_Comm, MPI_Errhandler) = MPI_Errhandler_set;
    int (*hindexed)(int, const int *, const MPI_Aint *, MPI_Datatype, MPI_Datatype *) = MPI_Type_hindexed;
    int (*hvector)(int, int, MPI_Aint, MPI_Datatype, MPI_Datatype *) = MPI_Type_hvector;
    int (*structure)(int, const int *, const MPI_Aint *, const MPI_Datatype *, MPI_Datatype *) = MPI_Type_struct;
    fine = fine && removed[0] && removed[1] && removed[2] && address && create && get && set && hindexed && hvector;
    fine = fine && structure && MPI_UB != MPI_LB && MPI_COMBINER_STRUCT_INTEGER != MPI_COMBINER_HVECTOR_INTEGER;

    fine = fine && ROUND(Comm, MPI_COMM_WORLD) && ROUND(Errhandler, MPI_ERRORS_RETURN) && ROUND(File, MPI_FILE_NULL);
    fine = fine && ROUND(Group, MPI_GROUP_EMPTY) && ROUND(Info, MPI_INFO_ENV) && ROUND(Message, MPI_MESSAGE_NO_PROC);
    fine = fine && ROUND(Op, MPI_SUM) && ROUND(Request, MPI_REQUEST_NULL) && ROUND(Session, MPI_SESSION_NULL);
    fine = fine && ROUND(Type, MPI_DOUBLE) && ROUND(Win, MPI_WIN_NULL) && MPI_Comm_c2f(MPI_COMM_SELF) == 0x102;

    status.MPI_SOURCE = 1;
    status.MPI_TAG = 2;
    status.MPI_ERROR = 3;
    for (i = 0; i < 5; i++)
        status.MPI_internal[i] = 4 + i;
    fine = fine && MPI_Status_c2f(&status, f_status) == MPI_SUCCESS;
    for (i = 0; i < MPI_F_STATUS_SIZE; i++)
        fine = fine && f_status[i] == 1 + i;
    fine = fine && PMPI_Status_f2c(f_status, &back) == MPI_SUCCESS && PMPI_Status_c2f(&back, f_status) == MPI_SUCCESS;
    fine = fine && MPI_Status_f2c(f_status, &back) == MPI_SUCCESS && back.MPI_internal[4] == 8;
    fine = fine && MPI_Status_f2c(MPI_F_STATUS_IGNORE, &back) == MPI_ERR_ARG;

    puts(fine ? "fine" : "wrong");
    return !fine;
}
