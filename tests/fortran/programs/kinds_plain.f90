! Units with and without -fdefault-real-8 in one program: this one is compiled without, kinds_large.f90 with it.
program kinds_plain
use mpi_f08
implicit none
integer :: me, wrong
real :: small
real(8) :: one, all
interface
subroutine exchange(mine, theirs, wrong)
real(8) :: mine, theirs
integer :: wrong
end subroutine
end interface
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, me)
wrong = 0
one = 0.1_8 + me
! What the other unit sends as MPI_REAL is received here as MPI_DOUBLE_PRECISION.
if (me == 0) then
  call exchange(one, all, wrong)
else
  call MPI_Sendrecv(one, 1, MPI_DOUBLE_PRECISION, 0, 1, all, 1, MPI_REAL8, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
end if
if (all /= 0.1_8 + (1 - me)) wrong = wrong + 1
small = 0.1
call MPI_Allreduce(MPI_IN_PLACE, small, 1, MPI_REAL, MPI_MAX, MPI_COMM_WORLD)
if (small /= 0.1) wrong = wrong + 1
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
if (me == 0 .and. wrong == 0) print '(A)', 'ok'
call MPI_Finalize()
end program
