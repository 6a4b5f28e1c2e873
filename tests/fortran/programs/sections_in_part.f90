! Sections of two dimensions of which a message has a part only, or which are rows of a field: pmodels/mpich issues
! 6909 and 7098, open-mpi/ompi issue 6569. Any number of ranks.
program sections_in_part
use mpi_f08
implicit none
integer :: me, ranks, wrong, i, left, right, got
integer, asynchronous :: a(30, 20), b(100), c(30, 20), field(4, 6)
type(MPI_Request) :: rq(2)
type(MPI_Status) :: status
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, me)
call MPI_Comm_size(MPI_COMM_WORLD, ranks)
left = modulo(me - 1, ranks)
right = modulo(me + 1, ranks)
wrong = 0
a = reshape([(i, i = 1, 600)], [30, 20])
! One less than the section has, and what ends in the middle of a column.
do i = 1, 99, 7
  b = -1
  c = -1
  call MPI_Irecv(b, 100, MPI_INTEGER, left, 99, MPI_COMM_WORLD, rq(1))
  call MPI_Isend(a(1:30:3, 1:20:2), i, MPI_INTEGER, right, 99, MPI_COMM_WORLD, rq(2))
  call MPI_Wait(rq(1), status)
  call MPI_Wait(rq(2), MPI_STATUS_IGNORE)
  call MPI_Get_count(status, MPI_INTEGER, got)
  call MPI_F_sync_reg(b)
  if (got /= i .or. any(b(:i) /= first(i)) .or. any(b(i + 1:) /= -1)) wrong = wrong + 1
  call MPI_Sendrecv(b, i, MPI_INTEGER, right, 1, c(1:30:3, 1:20:2), 100, MPI_INTEGER, left, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
  b = reshape(c(1:30:3, 1:20:2), [100])
  if (any(b(:i) /= first(i)) .or. any(b(i + 1:) /= -1) .or. count(c == -1) /= 600 - i) wrong = wrong + 1
end do
! Rows of a field: the last but one goes to the right, the first comes from the left.
field = me
call MPI_Isendrecv(field(3, :), 6, MPI_INTEGER, right, 0, field(1, :), 6, MPI_INTEGER, left, 0, MPI_COMM_WORLD, rq(1))
call MPI_Wait(rq(1), MPI_STATUS_IGNORE)
call MPI_F_sync_reg(field)
if (any(field(1, :) /= left) .or. any(field(2:, :) /= me)) wrong = wrong + 1
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
call MPI_Finalize()
if (wrong == 0 .and. me == 0) print '(A)', 'ok'
contains
! The first elements of the section, column by column.
function first(number)
integer :: number, k
integer :: first(number)
first = [(1 + 3 * modulo(k, 10) + 60 * (k / 10), k = 0, number - 1)]
end function
end program
