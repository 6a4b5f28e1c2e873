! What is wrong gives an error of its class; with the argument "type" or "key" the handler is the initial one.
program wrong
use mpi
implicit none
integer :: ierr, me, info, file, got(4)
character(len=300) :: long
character(len=5000) :: longest
character(len=8) :: how
logical :: flag
character(len=20) :: value
character(len=MPI_MAX_OBJECT_NAME) :: name
integer :: bad, length
bad = 0
long = repeat('x', 300)
longest = repeat('y', 5000)
got = 0
call MPI_Init(ierr)
call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
call get_command_argument(1, how)
select case (how)
case ('type')
    call MPI_Send(got, 1, 12345, 0, 0, MPI_COMM_WORLD, ierr)
case ('key')
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, long, 'value', ierr)
end select
call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
call MPI_Send(got, 1, 12345, 0, 0, MPI_COMM_WORLD, ierr)
call expect(MPI_ERR_TYPE, 'a datatype that does not exist')
call MPI_Bcast(got, 1, -7, 0, MPI_COMM_WORLD, ierr)
call expect(MPI_ERR_TYPE, 'a datatype that does not exist, of all')
call MPI_Info_create(info, ierr)
call MPI_Info_set(info, long, 'value', ierr)
call expect(MPI_ERR_INFO_KEY, 'a long key')
call MPI_Info_get(info, long, 20, value, flag, ierr)
call expect(MPI_ERR_INFO_KEY, 'a long key to get')
call MPI_Info_set(info, 'key', longest, ierr)
call expect(MPI_ERR_INFO_VALUE, 'a long value')
call MPI_Info_free(info, ierr)
! 7.8: a long name is cut off.
call MPI_Comm_set_name(MPI_COMM_WORLD, long, ierr)
call expect(MPI_SUCCESS, 'a long name of a communicator')
call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, ierr)
if (length /= MPI_MAX_OBJECT_NAME) then
    print '(a, i0)', 'characters of the name that was cut off: ', length
    bad = bad + 1
end if
call MPI_Publish_name(long, MPI_INFO_NULL, 'port', ierr)
call expect(MPI_ERR_SERVICE, 'a long name of a service')
call MPI_Publish_name('wrong', MPI_INFO_NULL, longest, ierr)
call expect(MPI_ERR_PORT, 'a long name of a port')
call MPI_Comm_connect(longest, MPI_INFO_NULL, 0, MPI_COMM_SELF, info, ierr)
call expect(MPI_ERR_PORT, 'a long name of a port to connect to')
call MPI_File_open(MPI_COMM_WORLD, longest, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
call expect(MPI_ERR_BAD_FILE, 'a long path')
if (me == 0 .and. bad == 0) print '(a)', 'wrong is right'
call MPI_Finalize(ierr)
contains
subroutine expect(class, what)
    integer, intent(in) :: class
    character(len=*), intent(in) :: what
    integer :: found, ignored
    call MPI_Error_class(ierr, found, ignored)
    if (found /= class) then
        print '(a, i0, a, i0)', what // ': class ', found, ' in place of ', class
        bad = bad + 1
    end if
end subroutine
end program
