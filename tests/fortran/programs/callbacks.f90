! Procedures of the user: operations, error handlers, attributes, generalized requests; internal ones too. Two ranks.
program callbacks
use mpi_f08
use, intrinsic :: iso_c_binding
implicit none
integer :: me, wrong, copies, deletes, key, calls, i, values(3), sums(3)
integer(kind=MPI_ADDRESS_KIND) :: extra, value
logical :: flag
type(MPI_Op) :: op
type(MPI_Comm) :: second
type(MPI_Errhandler) :: handler
type(MPI_Request) :: request
type(MPI_Status) :: status
interface
  ! The value as C reads it.
  function value_in_c(comm, key) bind(C)
    import
    integer(c_int), value :: comm, key
    integer(c_long) :: value_in_c
  end function
  ! Sets an attribute from C.
  subroutine set_in_c(comm, key, value) bind(C)
    import
    integer(c_int), value :: comm, key
    integer(c_long), value :: value
  end subroutine
end interface
wrong = 0
copies = 0
deletes = 0
calls = 0
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, me)
call MPI_Op_create(larger_square, .true., op)
values = [me, -3, 2]
call MPI_Allreduce(values, sums, 3, MPI_INTEGER, op, MPI_COMM_WORLD)
if (any(sums /= [1, -3, 2])) wrong = wrong + 1
call MPI_Op_commutative(op, flag)
if (.not. flag) wrong = wrong + 1
call MPI_Op_free(op)
extra = 70
call MPI_Comm_create_keyval(copy, delete, key, extra)
extra = 0
! Set here and read in C, which is given the address of the value.
call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 12345678901_MPI_ADDRESS_KIND)
call MPI_Comm_get_attr(MPI_COMM_WORLD, key, value, flag)
if (.not. flag .or. value /= 12345678901_MPI_ADDRESS_KIND) wrong = wrong + 1
if (value_in_c(MPI_COMM_WORLD%MPI_VAL, key) /= 12345678901_MPI_ADDRESS_KIND) wrong = wrong + 1
call MPI_Comm_dup(MPI_COMM_WORLD, second)
call MPI_Comm_get_attr(second, key, value, flag)
if (.not. flag .or. value /= 12345678902_MPI_ADDRESS_KIND .or. copies /= 1) wrong = wrong + 1
! Set in C and read here.
call set_in_c(second%MPI_VAL, key, 77_c_long)
call MPI_Comm_get_attr(second, key, value, flag)
if (.not. flag .or. value /= 77 .or. deletes /= 1) wrong = wrong + 1
call MPI_Comm_free(second)
call MPI_Comm_delete_attr(MPI_COMM_WORLD, key)
call MPI_Comm_free_keyval(key)
if (deletes /= 3 .or. key /= MPI_KEYVAL_INVALID) wrong = wrong + 1
call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, extra)
call MPI_Comm_set_attr(MPI_COMM_WORLD, key, -5_MPI_ADDRESS_KIND)
call MPI_Comm_dup(MPI_COMM_WORLD, second)
call MPI_Comm_get_attr(second, key, value, flag)
if (.not. flag .or. value /= -5 .or. value_in_c(second%MPI_VAL, key) /= -5) wrong = wrong + 1
! An error handler.
call MPI_Comm_create_errhandler(on_error, handler)
call MPI_Comm_set_errhandler(second, handler)
call MPI_Errhandler_free(handler)
call MPI_Send(me, 1, MPI_INTEGER, 99, 0, second, i)
if (i == MPI_SUCCESS .or. calls /= 1) wrong = wrong + 1
call MPI_Comm_free(second)
! A generalized request.
extra = 40
call MPI_Grequest_start(query, release, cancelled, extra, request)
call MPI_Test(request, flag, status)
if (flag) wrong = wrong + 1
call MPI_Cancel(request)
call MPI_Grequest_complete(request)
call MPI_Wait(request, status)
if (status%MPI_TAG /= 41 .or. extra /= 42 .or. request /= MPI_REQUEST_NULL) wrong = wrong + 1
call MPI_Get_count(status, MPI_INTEGER, i)
if (i /= 3) wrong = wrong + 1
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
if (me == 0 .and. wrong == 0) print '(A)', 'ok'
if (me == 0 .and. wrong /= 0) print *, 'wrong:', wrong
call MPI_Finalize()
contains
subroutine larger_square(invec, inoutvec, length, datatype)
  type(c_ptr), value :: invec, inoutvec
  integer :: length
  type(MPI_Datatype) :: datatype
  integer, pointer :: from(:), to(:)
  if (datatype /= MPI_INTEGER) wrong = wrong + 1
  call c_f_pointer(invec, from, [length])
  call c_f_pointer(inoutvec, to, [length])
  where (from**2 > to**2) to = from
end subroutine
subroutine copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
  type(MPI_Comm) :: oldcomm
  integer :: comm_keyval, ierror
  integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
  logical :: flag
  if (oldcomm /= MPI_COMM_WORLD .or. comm_keyval /= key .or. extra_state /= 70) wrong = wrong + 1
  attribute_val_out = attribute_val_in + 1
  copies = copies + 1
  flag = .true.
  ierror = MPI_SUCCESS
end subroutine
subroutine delete(comm, comm_keyval, attribute_val, extra_state, ierror)
  type(MPI_Comm) :: comm
  integer :: comm_keyval, ierror
  integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
  if (comm == MPI_COMM_NULL .or. comm_keyval /= key .or. extra_state /= 70) wrong = wrong + 1
  if (attribute_val < 77 .or. attribute_val > 12345678902_MPI_ADDRESS_KIND) wrong = wrong + 1
  deletes = deletes + 1
  ierror = MPI_SUCCESS
end subroutine
subroutine on_error(comm, error_code)
  type(MPI_Comm) :: comm
  integer :: error_code, error_class
  call MPI_Error_class(error_code, error_class)
  if (comm /= second .or. error_class /= MPI_ERR_RANK) wrong = wrong + 1
  calls = calls + 1
end subroutine
subroutine query(extra_state, status, ierror)
  integer(kind=MPI_ADDRESS_KIND) :: extra_state
  type(MPI_Status) :: status
  integer :: ierror
  status%MPI_SOURCE = MPI_UNDEFINED
  status%MPI_TAG = int(extra_state)
  call MPI_Status_set_elements(status, MPI_INTEGER, 3)
  call MPI_Status_set_cancelled(status, .false.)
  ierror = MPI_SUCCESS
end subroutine
subroutine release(extra_state, ierror)
  integer(kind=MPI_ADDRESS_KIND) :: extra_state
  integer :: ierror
  extra_state = extra_state + 1
  ierror = MPI_SUCCESS
end subroutine
subroutine cancelled(extra_state, complete, ierror)
  integer(kind=MPI_ADDRESS_KIND) :: extra_state
  logical :: complete
  integer :: ierror
  if (complete) wrong = wrong + 1
  extra_state = extra_state + 1
  ierror = MPI_SUCCESS
end subroutine
end program
