! C that Fortran calls knows which statuses are to be ignored, from all three faces in one program.
#ifdef HEADER
subroutine of_header()
implicit none
include 'mpif.h'
integer :: status(MPI_STATUS_SIZE)
call seen(MPI_STATUS_IGNORE, 1)
call seen(MPI_STATUSES_IGNORE, 2)
call seen(status, 3)
end subroutine
#endif

subroutine of_module()
use mpi
implicit none
integer :: status(MPI_STATUS_SIZE)
call seen(MPI_STATUS_IGNORE, 1)
call seen(MPI_STATUSES_IGNORE, 2)
call seen(status, 3)
end subroutine

subroutine of_f08()
use mpi_f08
implicit none
type(MPI_Status) :: status
interface
subroutine seen_f08(status, call) bind(C)
import :: MPI_Status
type(MPI_Status) :: status
integer :: call
end subroutine
end interface
call seen_f08(MPI_STATUS_IGNORE, 1)
call seen_f08(MPI_STATUSES_IGNORE(1), 2)
call seen_f08(status, 3)
end subroutine

program ignored
implicit none
integer :: ierr
call MPI_Init(ierr)
#ifdef HEADER
call of_header()
#endif
call of_module()
call of_f08()
call MPI_Finalize(ierr)
call finish()
end program
