! Messages, collectives, statuses, logicals and strings with module mpi. Two ranks.
program basics
use mpi
use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
implicit none
integer :: ierr, me, n, status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), req(2), i, wrong, got(4), size, info
integer :: pair, two, length
integer(kind=MPI_ADDRESS_KIND) :: where(2), bytes, number
real(kind=8) :: d(5), sums(5)
logical :: flag
character(len=20) :: value
character(len=MPI_MAX_PORT_NAME) :: port
type(c_ptr) :: memory
integer, pointer :: cells(:)
wrong = 0
call MPI_Init_thread(MPI_THREAD_FUNNELED, i, ierr)
call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
if (i < MPI_THREAD_FUNNELED .or. n /= 2) wrong = wrong + 1
got = -1
call MPI_Irecv(got, 4, MPI_INTEGER, 1 - me, 3, MPI_COMM_WORLD, req(1), ierr)
call MPI_Isend((/ me, me + 1, me + 2 /), 3, MPI_INTEGER, 1 - me, 3, MPI_COMM_WORLD, req(2), ierr)
call MPI_Waitall(2, req, statuses, ierr)
call MPI_Get_count(statuses(:, 1), MPI_INTEGER, i, ierr)
if (i /= 3 .or. got(3) /= 3 - me .or. got(4) /= -1 .or. statuses(MPI_TAG, 1) /= 3) wrong = wrong + 1
d = me
call MPI_Reduce(d, sums, 5, MPI_REAL8, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
if (me == 0 .and. any(sums /= 1)) wrong = wrong + 1
call MPI_Bcast(sums, 5, MPI_REAL8, 0, MPI_COMM_WORLD, ierr)
if (any(sums /= 1)) wrong = wrong + 1
call MPI_Sizeof(d, size, ierr)
if (size /= 8) wrong = wrong + 1
! A structure of absolute addresses.
call MPI_Get_address(me, where(1), ierr)
call MPI_Get_address(d(2), where(2), ierr)
call MPI_Type_create_hindexed(1, (/ 1 /), where(2:2), MPI_REAL8, two, ierr)
call MPI_Type_create_struct(2, (/ 1, 1 /), (/ where(1), 0_MPI_ADDRESS_KIND /), (/ MPI_INTEGER, two /), pair, ierr)
call MPI_Type_commit(pair, ierr)
call MPI_Sendrecv(MPI_BOTTOM, 1, pair, 1 - me, 4, got, 12, MPI_BYTE, 1 - me, 4, MPI_COMM_WORLD, status, ierr)
if (got(1) /= 1 - me .or. transfer(got(2:3), 1.0_8) /= 1 - me) wrong = wrong + 1
call MPI_Type_free(pair, ierr)
if (pair /= MPI_DATATYPE_NULL) wrong = wrong + 1
! Strings: blanks at both ends of a key are no part of it, results are filled with blanks.
call MPI_Info_create(info, ierr)
call MPI_Info_set(info, '  color ', ' deep blue  ', ierr)
value = 'x'
call MPI_Info_get(info, 'color', 20, value, flag, ierr)
if (.not. flag .or. value /= 'deep blue') wrong = wrong + 1
length = 20
value = 'x'
call MPI_Info_get_string(info, 'color', length, value, flag, ierr)
if (.not. flag .or. length /= 9 .or. value /= 'deep blue') wrong = wrong + 1
call MPI_Info_get(info, 'size', 20, value, flag, ierr)
if (flag) wrong = wrong + 1
call MPI_Info_free(info, ierr)
if (me == 0) call MPI_Publish_name('a service', MPI_INFO_NULL, 'a port', ierr)
call MPI_Barrier(MPI_COMM_WORLD, ierr)
call MPI_Lookup_name('a service', MPI_INFO_NULL, port, ierr)
if (port /= 'a port') wrong = wrong + 1
call MPI_Barrier(MPI_COMM_WORLD, ierr)
if (me == 0) call MPI_Unpublish_name('a service', MPI_INFO_NULL, 'a port', ierr)
! Memory by TYPE(C_PTR) and by a number.
bytes = 40
call MPI_Alloc_mem(bytes, MPI_INFO_NULL, memory, ierr)
call c_f_pointer(memory, cells, (/ 10 /))
cells = me
call MPI_Allreduce(MPI_IN_PLACE, cells, 10, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
if (any(cells /= 1)) wrong = wrong + 1
call MPI_Free_mem(cells, ierr)
call MPI_Alloc_mem(bytes, MPI_INFO_NULL, number, ierr)
if (number == 0) wrong = wrong + 1
call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, number, flag, ierr)
if (.not. flag .or. number < 32767) wrong = wrong + 1
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
if (me == 0 .and. wrong == 0) print '(A)', 'ok'
if (me == 0 .and. wrong /= 0) print *, 'wrong:', wrong
call MPI_Finalize(ierr)
end program
