! Sections of operations that are under way: elements that an operation does not write belong to the program
! meanwhile, the others are right as soon as any call tells that it is done. Two ranks.
program sections_pending
use mpi_f08
implicit none
integer :: me, wrong, i, j
logical :: flag
integer, asynchronous :: y(4, 2), f(2), x(16), z(16), all(3, 8)
type(MPI_Request) :: rq, many(8)
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, me)
wrong = 0
! Not significant at rank 1, which goes on using it.
f = me + 10
y = -1
call MPI_Igather(f, 2, MPI_INTEGER, y(1:4:2, :), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, rq)
if (me == 1) y = 5
call MPI_Wait(rq, MPI_STATUS_IGNORE)
call MPI_F_sync_reg(y)
if (me == 0 .and. any(y /= reshape([10, -1, 10, -1, 11, -1, 11, -1], [4, 2]))) wrong = wrong + 1
if (me == 1 .and. any(y /= 5)) wrong = wrong + 1
! Elements between the pieces of a vector operation.
x = -1
call MPI_Iallgatherv(f, 1, MPI_INTEGER, x(1:16:2), [1, 1], [0, 4], MPI_INTEGER, MPI_COMM_WORLD, rq)
x(3:7:2) = 77
x(2:16:2) = 78
call MPI_Wait(rq, MPI_STATUS_IGNORE)
call MPI_F_sync_reg(x)
if (any(x(1:9:4) /= [10, 77, 11]) .or. any(x(3:7:2) /= 77) .or. any(x(2:16:2) /= 78)) wrong = wrong + 1
! Told by a look that completes nothing.
x = [(i + me, i = 1, 16)]
z = -1
call MPI_Iallreduce(x(1:16:2), z(16:2:-2), 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, rq)
flag = .false.
do while (.not. flag)
  call MPI_Request_get_status(rq, flag, MPI_STATUS_IGNORE)
end do
call MPI_F_sync_reg(z)
if (any(z(16:2:-2) /= [(2 * i + 1, i = 1, 16, 2)]) .or. any(z(1:15:2) /= -1)) wrong = wrong + 1
call MPI_Wait(rq, MPI_STATUS_IGNORE)
! Many at once, completed in any order.
all = -1
do j = 1, 8
  call MPI_Iallreduce(x(j:j + 8:4), all(:, j), 3, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, many(j))
end do
do j = 1, 8
  call MPI_Waitany(8, many, i, MPI_STATUS_IGNORE)
end do
call MPI_F_sync_reg(all)
do j = 1, 8
  if (any(all(:, j) /= [(i + 1, i = j, j + 8, 4)])) wrong = wrong + 1
end do
! Given back while it is under way, and written all the same.
z = -1
call MPI_Iallreduce(x(1:16:2), z(1:16:2), 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, rq)
call MPI_Request_free(rq)
do while (z(15) == -1)
  call MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_SELF, flag, MPI_STATUS_IGNORE)
  call MPI_F_sync_reg(z)
end do
if (any(z(1:16:2) /= [(2 * i + 1, i = 1, 16, 2)])) wrong = wrong + 1
! Persistent: what the section holds at each start.
z = -1
call MPI_Allreduce_init(x(1:16:2), z(1:16:2), 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, rq)
do j = 1, 3
  x = x * 2
  call MPI_F_sync_reg(x)
  call MPI_Start(rq)
  call MPI_Wait(rq, MPI_STATUS_IGNORE)
  call MPI_F_sync_reg(z)
  if (any(z(1:16:2) /= [(2**j * (2 * i + 1), i = 1, 16, 2)]) .or. any(z(2:16:2) /= -1)) wrong = wrong + 1
end do
call MPI_Request_free(rq)
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
if (me == 0 .and. wrong == 0) print '(A)', 'ok'
if (me == 0 .and. wrong /= 0) print *, 'wrong:', wrong
call MPI_Finalize()
end program
