! Module mpi_f08 of Tutti @VERSION@. Generated: interfaces, types and constants only.
MODULE mpi_f08
USE, INTRINSIC :: ISO_C_BINDING, ONLY: C_PTR, C_INT, C_DOUBLE
USE tutti_mpi_base
IMPLICIT NONE
PRIVATE :: C_PTR, C_INT, C_DOUBLE

@TYPES@
TYPE, BIND(C) :: MPI_Status
  INTEGER(C_INT) :: MPI_SOURCE
  INTEGER(C_INT) :: MPI_TAG
  INTEGER(C_INT) :: MPI_ERROR
  INTEGER(C_INT), PRIVATE :: MPI_internal(5)
END TYPE
LOGICAL, PARAMETER :: MPI_SUBARRAYS_SUPPORTED = .TRUE.
LOGICAL, PARAMETER :: MPI_ASYNC_PROTECTS_NONBLOCKING = .TRUE.
INTEGER, PARAMETER :: MPI_SOURCE = 1
INTEGER, PARAMETER :: MPI_TAG = 2
INTEGER, PARAMETER :: MPI_ERROR = 3
! Which kinds the options of the compiler have given to reals: module files belong to such options.
@KINDS@
@CONSTANTS@

TYPE(MPI_Status), BIND(C, name="tutti_f08_status_ignore"), TARGET :: MPI_STATUS_IGNORE
TYPE(MPI_Status), BIND(C, name="tutti_f08_statuses_ignore"), TARGET :: MPI_STATUSES_IGNORE(1)

@OPERATORS@
ABSTRACT INTERFACE
SUBROUTINE MPI_User_function(invec, inoutvec, len, datatype)
IMPORT
TYPE(C_PTR), VALUE :: invec, inoutvec
INTEGER :: len
TYPE(MPI_Datatype) :: datatype
END SUBROUTINE
SUBROUTINE MPI_User_function_c(invec, inoutvec, len, datatype)
IMPORT
TYPE(C_PTR), VALUE :: invec, inoutvec
INTEGER(KIND=MPI_COUNT_KIND) :: len
TYPE(MPI_Datatype) :: datatype
END SUBROUTINE
SUBROUTINE MPI_Comm_copy_attr_function(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, &
  flag, ierror)
IMPORT
TYPE(MPI_Comm) :: oldcomm
INTEGER :: comm_keyval, ierror
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
LOGICAL :: flag
END SUBROUTINE
SUBROUTINE MPI_Comm_delete_attr_function(comm, comm_keyval, attribute_val, extra_state, ierror)
IMPORT
TYPE(MPI_Comm) :: comm
INTEGER :: comm_keyval, ierror
INTEGER(KIND=MPI_ADDRESS_KIND) :: attribute_val, extra_state
END SUBROUTINE
SUBROUTINE MPI_Type_copy_attr_function(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, &
  flag, ierror)
IMPORT
TYPE(MPI_Datatype) :: oldtype
INTEGER :: type_keyval, ierror
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
LOGICAL :: flag
END SUBROUTINE
SUBROUTINE MPI_Type_delete_attr_function(datatype, type_keyval, attribute_val, extra_state, ierror)
IMPORT
TYPE(MPI_Datatype) :: datatype
INTEGER :: type_keyval, ierror
INTEGER(KIND=MPI_ADDRESS_KIND) :: attribute_val, extra_state
END SUBROUTINE
SUBROUTINE MPI_Win_copy_attr_function(oldwin, win_keyval, extra_state, attribute_val_in, attribute_val_out, &
  flag, ierror)
IMPORT
TYPE(MPI_Win) :: oldwin
INTEGER :: win_keyval, ierror
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
LOGICAL :: flag
END SUBROUTINE
SUBROUTINE MPI_Win_delete_attr_function(win, win_keyval, attribute_val, extra_state, ierror)
IMPORT
TYPE(MPI_Win) :: win
INTEGER :: win_keyval, ierror
INTEGER(KIND=MPI_ADDRESS_KIND) :: attribute_val, extra_state
END SUBROUTINE
SUBROUTINE MPI_Comm_errhandler_function(comm, error_code)
IMPORT
TYPE(MPI_Comm) :: comm
INTEGER :: error_code
END SUBROUTINE
SUBROUTINE MPI_File_errhandler_function(file, error_code)
IMPORT
TYPE(MPI_File) :: file
INTEGER :: error_code
END SUBROUTINE
SUBROUTINE MPI_Win_errhandler_function(win, error_code)
IMPORT
TYPE(MPI_Win) :: win
INTEGER :: error_code
END SUBROUTINE
SUBROUTINE MPI_Session_errhandler_function(session, error_code)
IMPORT
TYPE(MPI_Session) :: session
INTEGER :: error_code
END SUBROUTINE
SUBROUTINE MPI_Grequest_query_function(extra_state, status, ierror)
IMPORT
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
TYPE(MPI_Status) :: status
INTEGER :: ierror
END SUBROUTINE
SUBROUTINE MPI_Grequest_free_function(extra_state, ierror)
IMPORT
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
INTEGER :: ierror
END SUBROUTINE
SUBROUTINE MPI_Grequest_cancel_function(extra_state, complete, ierror)
IMPORT
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
LOGICAL :: complete
INTEGER :: ierror
END SUBROUTINE
SUBROUTINE MPI_Datarep_extent_function(datatype, extent, extra_state, ierror)
IMPORT
TYPE(MPI_Datatype) :: datatype
INTEGER(KIND=MPI_ADDRESS_KIND) :: extent, extra_state
INTEGER :: ierror
END SUBROUTINE
SUBROUTINE MPI_Datarep_conversion_function(userbuf, datatype, count, filebuf, position, extra_state, ierror)
IMPORT
TYPE(C_PTR), VALUE :: userbuf, filebuf
TYPE(MPI_Datatype) :: datatype
INTEGER :: count, ierror
INTEGER(KIND=MPI_OFFSET_KIND) :: position
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
END SUBROUTINE
SUBROUTINE MPI_Datarep_conversion_function_c(userbuf, datatype, count, filebuf, position, extra_state, ierror)
IMPORT
TYPE(C_PTR), VALUE :: userbuf, filebuf
TYPE(MPI_Datatype) :: datatype
INTEGER(KIND=MPI_COUNT_KIND) :: count
INTEGER(KIND=MPI_OFFSET_KIND) :: position
INTEGER(KIND=MPI_ADDRESS_KIND) :: extra_state
INTEGER :: ierror
END SUBROUTINE
END INTERFACE

PROCEDURE(MPI_Comm_copy_attr_function) :: MPI_COMM_NULL_COPY_FN, MPI_COMM_DUP_FN
PROCEDURE(MPI_Comm_delete_attr_function) :: MPI_COMM_NULL_DELETE_FN
PROCEDURE(MPI_Type_copy_attr_function) :: MPI_TYPE_NULL_COPY_FN, MPI_TYPE_DUP_FN
PROCEDURE(MPI_Type_delete_attr_function) :: MPI_TYPE_NULL_DELETE_FN
PROCEDURE(MPI_Win_copy_attr_function) :: MPI_WIN_NULL_COPY_FN, MPI_WIN_DUP_FN
PROCEDURE(MPI_Win_delete_attr_function) :: MPI_WIN_NULL_DELETE_FN
PROCEDURE(MPI_Datarep_conversion_function) :: MPI_CONVERSION_FN_NULL
PROCEDURE(MPI_Datarep_conversion_function_c) :: MPI_CONVERSION_FN_NULL_C

INTERFACE MPI_Wtime
REAL(C_DOUBLE) FUNCTION MPI_Wtime_f08()
IMPORT
END FUNCTION
END INTERFACE
INTERFACE PMPI_Wtime
REAL(C_DOUBLE) FUNCTION PMPI_Wtime_f08()
IMPORT
END FUNCTION
END INTERFACE
INTERFACE MPI_Wtick
REAL(C_DOUBLE) FUNCTION MPI_Wtick_f08()
IMPORT
END FUNCTION
END INTERFACE
INTERFACE PMPI_Wtick
REAL(C_DOUBLE) FUNCTION PMPI_Wtick_f08()
IMPORT
END FUNCTION
END INTERFACE
INTERFACE MPI_Aint_add
INTEGER(KIND=MPI_ADDRESS_KIND) FUNCTION MPI_Aint_add_f08(base, disp)
IMPORT
INTEGER(KIND=MPI_ADDRESS_KIND), INTENT(IN) :: base, disp
END FUNCTION
END INTERFACE
INTERFACE PMPI_Aint_add
INTEGER(KIND=MPI_ADDRESS_KIND) FUNCTION PMPI_Aint_add_f08(base, disp)
IMPORT
INTEGER(KIND=MPI_ADDRESS_KIND), INTENT(IN) :: base, disp
END FUNCTION
END INTERFACE
INTERFACE MPI_Aint_diff
INTEGER(KIND=MPI_ADDRESS_KIND) FUNCTION MPI_Aint_diff_f08(addr1, addr2)
IMPORT
INTEGER(KIND=MPI_ADDRESS_KIND), INTENT(IN) :: addr1, addr2
END FUNCTION
END INTERFACE
INTERFACE PMPI_Aint_diff
INTEGER(KIND=MPI_ADDRESS_KIND) FUNCTION PMPI_Aint_diff_f08(addr1, addr2)
IMPORT
INTEGER(KIND=MPI_ADDRESS_KIND), INTENT(IN) :: addr1, addr2
END FUNCTION
END INTERFACE
INTERFACE MPI_Pcontrol
SUBROUTINE MPI_Pcontrol_f08(level)
INTEGER, INTENT(IN) :: level
END SUBROUTINE
END INTERFACE
INTERFACE PMPI_Pcontrol
SUBROUTINE PMPI_Pcontrol_f08(level)
INTEGER, INTENT(IN) :: level
END SUBROUTINE
END INTERFACE
INTERFACE MPI_F_sync_reg
SUBROUTINE MPI_F_sync_reg_f08ts(buf) BIND(C, name="tutti_f_sync_reg")
TYPE(*), DIMENSION(..), ASYNCHRONOUS :: buf
END SUBROUTINE
END INTERFACE
INTERFACE
SUBROUTINE MPI_Status_f2f08(f_status, f08_status, ierror)
IMPORT
INTEGER, INTENT(IN) :: f_status(MPI_STATUS_SIZE)
TYPE(MPI_Status), INTENT(OUT) :: f08_status
INTEGER, OPTIONAL, INTENT(OUT) :: ierror
END SUBROUTINE
SUBROUTINE MPI_Status_f082f(f08_status, f_status, ierror)
IMPORT
TYPE(MPI_Status), INTENT(IN) :: f08_status
INTEGER, INTENT(OUT) :: f_status(MPI_STATUS_SIZE)
INTEGER, OPTIONAL, INTENT(OUT) :: ierror
END SUBROUTINE
END INTERFACE
@INTERFACES@
END MODULE
