! Messages, collectives, statuses, logicals and strings with module mpi_f08. Two ranks.
program basics
use mpi_f08
implicit none
integer :: me, n, i, wrong, got(4), values(3), ierr, flags
integer(kind=MPI_COUNT_KIND) :: many
type(MPI_Status) :: status, statuses(2)
type(MPI_Request) :: req(2)
type(MPI_Comm) :: copy
type(MPI_Group) :: group
double precision :: d(5), sums(5)
logical :: flag
character(len=MPI_MAX_OBJECT_NAME) :: name
character(len=MPI_MAX_PORT_NAME) :: port
wrong = 0
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, me)
call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
if (ierr /= MPI_SUCCESS .or. n /= 2) wrong = wrong + 1
got = -1
values = (/ me, me + 1, me + 2 /)
many = 4
call MPI_Irecv(got, many, MPI_INTEGER, 1 - me, 3, MPI_COMM_WORLD, req(1))
call MPI_Isend(values, 3, MPI_INTEGER, 1 - me, 3, MPI_COMM_WORLD, req(2))
call MPI_Waitall(2, req, statuses)
call MPI_Get_count(statuses(1), MPI_INTEGER, i)
if (i /= 3 .or. got(3) /= 3 - me .or. got(4) /= -1 .or. statuses(1)%MPI_TAG /= 3) wrong = wrong + 1
call MPI_Get_count(statuses(1), MPI_INTEGER, many)
if (many /= 3 .or. statuses(1)%MPI_SOURCE /= 1 - me) wrong = wrong + 1
if (req(1) /= MPI_REQUEST_NULL .or. .not. req(2) == MPI_REQUEST_NULL) wrong = wrong + 1
d = me
call MPI_Allreduce(d, sums, 5, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
if (any(sums /= 1)) wrong = wrong + 1
call MPI_Allreduce(MPI_IN_PLACE, d, 5, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
if (any(d /= 1)) wrong = wrong + 1
call MPI_Comm_dup(MPI_COMM_WORLD, copy)
call MPI_Comm_set_name(copy, 'the second world')
call MPI_Comm_get_name(copy, name, i)
if (i /= 16 .or. name /= 'the second world') wrong = wrong + 1
call MPI_Comm_compare(copy, MPI_COMM_WORLD, i)
if (i /= MPI_CONGRUENT .or. copy == MPI_COMM_WORLD) wrong = wrong + 1
call MPI_Comm_group(copy, group)
call MPI_Group_size(group, i)
if (i /= 2) wrong = wrong + 1
call MPI_Group_free(group)
call MPI_Comm_test_inter(copy, flag)
if (flag) wrong = wrong + 1
call MPI_Comm_free(copy)
call probe_of_nobody()
call names_of_services()
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
if (me == 0 .and. wrong == 0) print '(A)', 'ok'
if (me == 0 .and. wrong /= 0) print *, 'wrong:', wrong
call MPI_Finalize()
contains
subroutine names_of_services()
  if (me == 0) call MPI_Publish_name('a service', MPI_INFO_NULL, 'a port')
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Lookup_name('a service  ', MPI_INFO_NULL, port)
  if (port /= 'a port') wrong = wrong + 1
  call MPI_Barrier(MPI_COMM_WORLD)
  if (me == 0) call MPI_Unpublish_name('a service', MPI_INFO_NULL, 'a port')
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Lookup_name('a service', MPI_INFO_NULL, port, ierr)
  call MPI_Error_class(ierr, i)
  if (i /= MPI_ERR_NAME) wrong = wrong + 1
end subroutine
subroutine probe_of_nobody()
  flags = 0
  do while (flags == 0)
    call MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, flag, status)
    if (flag) flags = 1
  end do
  if (status%MPI_SOURCE /= MPI_PROC_NULL) wrong = wrong + 1
  call MPI_Recv(got, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
end subroutine
end program
