! Compiled with -fdefault-real-8, for kinds_plain.f90.
subroutine exchange(mine, theirs, wrong)
use mpi
implicit none
real :: mine, theirs
integer :: wrong, ierr, bytes
call MPI_Type_size(MPI_REAL, bytes, ierr)
if (bytes /= 8) wrong = wrong + 1
call MPI_Sendrecv(mine, 1, MPI_REAL, 1, 1, theirs, 1, MPI_REAL, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
end subroutine
