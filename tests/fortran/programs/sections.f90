! Array sections that are not contiguous, with mpi_f08: sent and received where they lie. Two ranks.
program sections
use mpi_f08
implicit none
integer :: me, other, wrong, i, position
integer, asynchronous :: a(6, 8), b(6, 8), line(8)
integer :: cube(4, 4, 4), c2(4, 4, 4), all(16)
integer(kind=1) :: packed(100)
type :: cell
  sequence
  integer :: first
  integer :: second(3)
end type
type(cell) :: cells(10)
type(MPI_Request) :: req(2)
type(MPI_Datatype) :: every_other, pair
type(MPI_Status) :: status
wrong = 0
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, me)
other = 1 - me
a = reshape([(100 * me + i, i = 1, 48)], [6, 8])
b = -1
! A row to a column backwards, nonblocking: the temporary types are gone before the end.
call MPI_Irecv(b(6:1:-1, 2), 6, MPI_INTEGER, other, 1, MPI_COMM_WORLD, req(1))
call MPI_Isend(a(3, 1:6), 6, MPI_INTEGER, other, 1, MPI_COMM_WORLD, req(2))
call MPI_Waitall(2, req, MPI_STATUSES_IGNORE)
call MPI_F_sync_reg(b)
if (any(b(6:1:-1, 2) /= [(100 * other + 3 + 6 * i, i = 0, 5)]) .or. any(b(:, 3) /= -1)) wrong = wrong + 1
! A datatype with gaps inside a section: every second one of the elements of every second row.
call MPI_Type_vector(4, 1, 2, MPI_INTEGER, every_other)
call MPI_Type_commit(every_other)
line = -1
call MPI_Sendrecv(a(2, :), 1, every_other, other, 2, line(1:7:2), 4, MPI_INTEGER, other, 2, MPI_COMM_WORLD, status)
if (any(line /= [((100 * other + 2 + 12 * i), -1, i = 0, 3)])) wrong = wrong + 1
call MPI_Get_count(status, MPI_INTEGER, i)
if (i /= 1) then
  call MPI_Get_elements(status, MPI_INTEGER, i)
  if (i /= 4) wrong = wrong + 1
end if
! Elements of a section are structures; the type takes a part of them.
cells%first = me
do i = 1, 10
  cells(i)%second = [i, 10 * i, 100 * i] + me
end do
call MPI_Type_contiguous(2, MPI_INTEGER, pair)
call MPI_Type_commit(pair)
all = -1
call MPI_Sendrecv(cells(1:9:4), 6, pair, other, 3, all, 12, MPI_INTEGER, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
if (any(all(5:8) /= [other, 5 + other, 50 + other, 500 + other]) .or. all(13) /= -1) wrong = wrong + 1
! Collectives, broadcast in place and reductions through copies.
cube = reshape([(me * 1000 + i, i = 1, 64)], [4, 4, 4])
c2 = cube
call MPI_Bcast(cube(2:3, 1:4:3, :), 16, MPI_INTEGER, 1, MPI_COMM_WORLD)
if (any(cube(2:3, 1:4:3, :) < 1000) .or. any(cube(1, :, :) /= c2(1, :, :))) wrong = wrong + 1
c2 = me
call MPI_Allreduce(MPI_IN_PLACE, c2(:, 2, :), 16, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
if (any(c2(:, 2, :) /= 1) .or. any(c2(:, 1, :) /= me)) wrong = wrong + 1
line = me
a = -1
call MPI_Allgather(line(1:8:4), 2, MPI_INTEGER, a(1:4, 8:1:-8), 2, MPI_INTEGER, MPI_COMM_WORLD)
if (any(a(1:4, 8) /= [0, 0, 1, 1])) wrong = wrong + 1
! Nothing, and packing.
call MPI_Sendrecv(a(2:1, :), 0, MPI_INTEGER, other, 4, b(:, 8:7), 0, MPI_INTEGER, other, 4, MPI_COMM_WORLD, status)
position = 0
b = reshape([(i, i = 1, 48)], [6, 8])
call MPI_Pack(b(5, ::2), 4, MPI_INTEGER, packed, 100, position, MPI_COMM_WORLD)
if (position /= 16) wrong = wrong + 1
position = 0
line = 0
call MPI_Unpack(packed, 16, position, line(8:2:-2), 4, MPI_INTEGER, MPI_COMM_WORLD)
if (any(line(8:2:-2) /= [5, 17, 29, 41]) .or. any(line(1:7:2) /= 0)) wrong = wrong + 1
! Persistent: the section is used again and again.
call MPI_Send_init(b(1, 1:4), 4, MPI_INTEGER, other, 5, MPI_COMM_WORLD, req(1))
call MPI_Recv_init(line(1:8:2), 4, MPI_INTEGER, other, 5, MPI_COMM_WORLD, req(2))
do i = 1, 3
  b(1, 1:4) = i * (me + 1)
  call MPI_F_sync_reg(b)
  call MPI_Startall(2, req)
  call MPI_Waitall(2, req, MPI_STATUSES_IGNORE)
  call MPI_F_sync_reg(line)
  if (any(line(1:8:2) /= i * (other + 1))) wrong = wrong + 1
end do
call MPI_Request_free(req(1))
call MPI_Request_free(req(2))
call MPI_Type_free(every_other)
call MPI_Type_free(pair)
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
if (me == 0 .and. wrong == 0) print '(A)', 'ok'
if (me == 0 .and. wrong /= 0) print *, 'wrong:', wrong
call MPI_Finalize()
end program
