! What the modules mpi and mpi_f08 of Tutti @VERSION@ have in common. Generated.
MODULE tutti_mpi_base
USE, INTRINSIC :: ISO_C_BINDING, ONLY: C_INT, C_CHAR
IMPLICIT NONE
PRIVATE :: C_INT, C_CHAR

INTEGER, PARAMETER :: MPI_INTEGER_KIND = 4
INTEGER, PARAMETER :: MPI_ADDRESS_KIND = 8
INTEGER, PARAMETER :: MPI_OFFSET_KIND = 8
INTEGER, PARAMETER :: MPI_COUNT_KIND = 8
INTEGER, PARAMETER :: MPI_STATUS_SIZE = 8
! INTEGER must have 4 bytes: this is an error otherwise.
INTEGER, PARAMETER, PRIVATE :: integers_of_4_bytes = 4 / (8 - KIND(0))
@CONSTANTS@

INTEGER(C_INT), BIND(C, name="tutti_module_bottom"), TARGET :: MPI_BOTTOM
INTEGER(C_INT), BIND(C, name="tutti_module_in_place"), TARGET :: MPI_IN_PLACE
INTEGER(C_INT), BIND(C, name="tutti_module_automatic"), TARGET :: MPI_BUFFER_AUTOMATIC
INTEGER(C_INT), BIND(C, name="tutti_module_unweighted"), TARGET :: MPI_UNWEIGHTED(1)
INTEGER(C_INT), BIND(C, name="tutti_module_weights_empty"), TARGET :: MPI_WEIGHTS_EMPTY(1)
INTEGER(C_INT), BIND(C, name="tutti_module_errcodes_ignore"), TARGET :: MPI_ERRCODES_IGNORE(1)
CHARACTER(KIND=C_CHAR), BIND(C, name="tutti_module_argv_null"), TARGET :: MPI_ARGV_NULL(1)
CHARACTER(KIND=C_CHAR), BIND(C, name="tutti_module_argvs_null"), TARGET :: MPI_ARGVS_NULL(1, 1)

INTERFACE MPI_SIZEOF
SUBROUTINE MPI_Sizeof_of_any(x, size, ierror) BIND(C, name="tutti_f_sizeof")
TYPE(*), DIMENSION(..) :: x
INTEGER, INTENT(OUT) :: size
INTEGER, OPTIONAL, INTENT(OUT) :: ierror
END SUBROUTINE
END INTERFACE
END MODULE
