/* What mpi.h has beyond the Standard ABI, written by hand. The generator puts everything below the first empty line into mpi.h. */

#define TUTTI_VERSION "@VERSION@"

#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define TUTTI_INLINE static inline
#elif defined(__GNUC__)
#define TUTTI_INLINE static __inline__
#else
#define TUTTI_INLINE static
#endif

/* Fortran handles and statuses: a handle is the same integer in both languages. */
typedef int MPI_Fint;

TUTTI_INLINE MPI_Fint MPI_Comm_c2f(MPI_Comm comm) { return MPI_Comm_toint(comm); }
TUTTI_INLINE MPI_Comm MPI_Comm_f2c(MPI_Fint comm) { return MPI_Comm_fromint(comm); }
TUTTI_INLINE MPI_Fint MPI_Errhandler_c2f(MPI_Errhandler errhandler) { return MPI_Errhandler_toint(errhandler); }
TUTTI_INLINE MPI_Errhandler MPI_Errhandler_f2c(MPI_Fint errhandler) { return MPI_Errhandler_fromint(errhandler); }
TUTTI_INLINE MPI_Fint MPI_File_c2f(MPI_File file) { return MPI_File_toint(file); }
TUTTI_INLINE MPI_File MPI_File_f2c(MPI_Fint file) { return MPI_File_fromint(file); }
TUTTI_INLINE MPI_Fint MPI_Group_c2f(MPI_Group group) { return MPI_Group_toint(group); }
TUTTI_INLINE MPI_Group MPI_Group_f2c(MPI_Fint group) { return MPI_Group_fromint(group); }
TUTTI_INLINE MPI_Fint MPI_Info_c2f(MPI_Info info) { return MPI_Info_toint(info); }
TUTTI_INLINE MPI_Info MPI_Info_f2c(MPI_Fint info) { return MPI_Info_fromint(info); }
TUTTI_INLINE MPI_Fint MPI_Message_c2f(MPI_Message message) { return MPI_Message_toint(message); }
TUTTI_INLINE MPI_Message MPI_Message_f2c(MPI_Fint message) { return MPI_Message_fromint(message); }
TUTTI_INLINE MPI_Fint MPI_Op_c2f(MPI_Op op) { return MPI_Op_toint(op); }
TUTTI_INLINE MPI_Op MPI_Op_f2c(MPI_Fint op) { return MPI_Op_fromint(op); }
TUTTI_INLINE MPI_Fint MPI_Request_c2f(MPI_Request request) { return MPI_Request_toint(request); }
TUTTI_INLINE MPI_Request MPI_Request_f2c(MPI_Fint request) { return MPI_Request_fromint(request); }
TUTTI_INLINE MPI_Fint MPI_Session_c2f(MPI_Session session) { return MPI_Session_toint(session); }
TUTTI_INLINE MPI_Session MPI_Session_f2c(MPI_Fint session) { return MPI_Session_fromint(session); }
TUTTI_INLINE MPI_Fint MPI_Type_c2f(MPI_Datatype datatype) { return MPI_Type_toint(datatype); }
TUTTI_INLINE MPI_Datatype MPI_Type_f2c(MPI_Fint datatype) { return MPI_Type_fromint(datatype); }
TUTTI_INLINE MPI_Fint MPI_Win_c2f(MPI_Win win) { return MPI_Win_toint(win); }
TUTTI_INLINE MPI_Win MPI_Win_f2c(MPI_Fint win) { return MPI_Win_fromint(win); }

/* The same under the names of the profiling interface. */
TUTTI_INLINE MPI_Fint PMPI_Comm_c2f(MPI_Comm comm) { return PMPI_Comm_toint(comm); }
TUTTI_INLINE MPI_Comm PMPI_Comm_f2c(MPI_Fint comm) { return PMPI_Comm_fromint(comm); }
TUTTI_INLINE MPI_Fint PMPI_Errhandler_c2f(MPI_Errhandler errhandler) { return PMPI_Errhandler_toint(errhandler); }
TUTTI_INLINE MPI_Errhandler PMPI_Errhandler_f2c(MPI_Fint errhandler) { return PMPI_Errhandler_fromint(errhandler); }
TUTTI_INLINE MPI_Fint PMPI_File_c2f(MPI_File file) { return PMPI_File_toint(file); }
TUTTI_INLINE MPI_File PMPI_File_f2c(MPI_Fint file) { return PMPI_File_fromint(file); }
TUTTI_INLINE MPI_Fint PMPI_Group_c2f(MPI_Group group) { return PMPI_Group_toint(group); }
TUTTI_INLINE MPI_Group PMPI_Group_f2c(MPI_Fint group) { return PMPI_Group_fromint(group); }
TUTTI_INLINE MPI_Fint PMPI_Info_c2f(MPI_Info info) { return PMPI_Info_toint(info); }
TUTTI_INLINE MPI_Info PMPI_Info_f2c(MPI_Fint info) { return PMPI_Info_fromint(info); }
TUTTI_INLINE MPI_Fint PMPI_Message_c2f(MPI_Message message) { return PMPI_Message_toint(message); }
TUTTI_INLINE MPI_Message PMPI_Message_f2c(MPI_Fint message) { return PMPI_Message_fromint(message); }
TUTTI_INLINE MPI_Fint PMPI_Op_c2f(MPI_Op op) { return PMPI_Op_toint(op); }
TUTTI_INLINE MPI_Op PMPI_Op_f2c(MPI_Fint op) { return PMPI_Op_fromint(op); }
TUTTI_INLINE MPI_Fint PMPI_Request_c2f(MPI_Request request) { return PMPI_Request_toint(request); }
TUTTI_INLINE MPI_Request PMPI_Request_f2c(MPI_Fint request) { return PMPI_Request_fromint(request); }
TUTTI_INLINE MPI_Fint PMPI_Session_c2f(MPI_Session session) { return PMPI_Session_toint(session); }
TUTTI_INLINE MPI_Session PMPI_Session_f2c(MPI_Fint session) { return PMPI_Session_fromint(session); }
TUTTI_INLINE MPI_Fint PMPI_Type_c2f(MPI_Datatype datatype) { return PMPI_Type_toint(datatype); }
TUTTI_INLINE MPI_Datatype PMPI_Type_f2c(MPI_Fint datatype) { return PMPI_Type_fromint(datatype); }
TUTTI_INLINE MPI_Fint PMPI_Win_c2f(MPI_Win win) { return PMPI_Win_toint(win); }
TUTTI_INLINE MPI_Win PMPI_Win_f2c(MPI_Fint win) { return PMPI_Win_fromint(win); }

/* A status of Fortran is an array of MPI_F_STATUS_SIZE integers with the same contents; that of mpi_f08 is a structure of them. */
/* What Fortran passes for a status that is to be ignored: the addresses of variables of the Fortran library. Without that library
 * they are null pointers, which no call from Fortran gives. */
#ifdef __GNUC__
extern __attribute__((weak)) MPI_Fint tutti_common_status_ignore_[], tutti_common_statuses_ignore_[];
extern __attribute__((weak)) MPI_Status tutti_f08_status_ignore, tutti_f08_statuses_ignore;
#define MPI_F_STATUS_IGNORE ((MPI_Fint *)tutti_common_status_ignore_)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint *)tutti_common_statuses_ignore_)
#define MPI_F08_STATUS_IGNORE (&tutti_f08_status_ignore)
#define MPI_F08_STATUSES_IGNORE (&tutti_f08_statuses_ignore)
#else
#define MPI_F_STATUS_IGNORE ((MPI_Fint *)0)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint *)0)
#define MPI_F08_STATUS_IGNORE ((MPI_F08_status *)0)
#define MPI_F08_STATUSES_IGNORE ((MPI_F08_status *)0)
#endif
typedef MPI_Status MPI_F08_status;
/* Requests of files had names of their own before MPI-2.2; old programs still use them. */
typedef MPI_Request MPIO_Request;
#define MPIO_Wait MPI_Wait
#define MPIO_Test MPI_Test

TUTTI_INLINE int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status)
{
    int i;
    if (!c_status || !f_status || f_status == MPI_F_STATUS_IGNORE || f_status == MPI_F_STATUSES_IGNORE)
        return MPI_ERR_ARG;
    f_status[MPI_F_SOURCE] = c_status->MPI_SOURCE;
    f_status[MPI_F_TAG] = c_status->MPI_TAG;
    f_status[MPI_F_ERROR] = c_status->MPI_ERROR;
    for (i = 0; i < 5; i++)
        f_status[3 + i] = c_status->MPI_internal[i];
    return MPI_SUCCESS;
}

TUTTI_INLINE int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status)
{
    int i;
    if (!f_status || !c_status || f_status == MPI_F_STATUS_IGNORE || f_status == MPI_F_STATUSES_IGNORE)
        return MPI_ERR_ARG;
    c_status->MPI_SOURCE = f_status[MPI_F_SOURCE];
    c_status->MPI_TAG = f_status[MPI_F_TAG];
    c_status->MPI_ERROR = f_status[MPI_F_ERROR];
    for (i = 0; i < 5; i++)
        c_status->MPI_internal[i] = f_status[3 + i];
    return MPI_SUCCESS;
}

TUTTI_INLINE int MPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status)
{
    if (!c_status || !f08_status)
        return MPI_ERR_ARG;
    *f08_status = *c_status;
    return MPI_SUCCESS;
}

TUTTI_INLINE int MPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status)
{
    return MPI_Status_c2f08(f08_status, c_status);
}

TUTTI_INLINE int MPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status)
{
    return MPI_Status_f2c(f_status, f08_status);
}

TUTTI_INLINE int MPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status)
{
    return MPI_Status_c2f(f08_status, f_status);
}

TUTTI_INLINE int PMPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status)
{
    return MPI_Status_c2f(c_status, f_status);
}

TUTTI_INLINE int PMPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status)
{
    return MPI_Status_f2c(f_status, c_status);
}

TUTTI_INLINE int PMPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status)
{
    return MPI_Status_c2f08(c_status, f08_status);
}

TUTTI_INLINE int PMPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status)
{
    return MPI_Status_f082c(f08_status, c_status);
}

TUTTI_INLINE int PMPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status)
{
    return MPI_Status_f2f08(f_status, f08_status);
}

TUTTI_INLINE int PMPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status)
{
    return MPI_Status_f082f(f08_status, f_status);
}

/* The functions that MPI-3.0 removed, over those that took their place. */
TUTTI_INLINE int MPI_Address(const void *location, MPI_Aint *address)
{
    return MPI_Get_address(location, address);
}

TUTTI_INLINE int MPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *errhandler)
{
    return MPI_Comm_create_errhandler(function, errhandler);
}

TUTTI_INLINE int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return MPI_Comm_get_errhandler(comm, errhandler);
}

TUTTI_INLINE int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return MPI_Comm_set_errhandler(comm, errhandler);
}

TUTTI_INLINE int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
}

TUTTI_INLINE int MPI_Type_hindexed(int count, const int array_of_blocklengths[],
                                   const MPI_Aint array_of_displacements[], MPI_Datatype oldtype,
                                   MPI_Datatype *newtype)
{
    return MPI_Type_create_hindexed(count, array_of_blocklengths, array_of_displacements, oldtype, newtype);
}

TUTTI_INLINE int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                                  MPI_Datatype *newtype)
{
    return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}

TUTTI_INLINE int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
}

TUTTI_INLINE int MPI_Type_struct(int count, const int array_of_blocklengths[],
                                 const MPI_Aint array_of_displacements[], const MPI_Datatype array_of_types[],
                                 MPI_Datatype *newtype)
{
    return MPI_Type_create_struct(count, array_of_blocklengths, array_of_displacements, array_of_types, newtype);
}

TUTTI_INLINE int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint extent;
    int error = MPI_Type_get_extent(datatype, displacement, &extent);
    if (error == MPI_SUCCESS)
        *displacement += extent;
    return error;
}
