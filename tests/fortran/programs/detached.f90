! What a detach gives back is what was attached, to the process, a communicator and a session: MPI_BUFFER_AUTOMATIC or
! an array. One rank.
program detached
use mpi_f08
use, intrinsic :: iso_c_binding
implicit none
type(c_ptr) :: found
integer :: size, wrong = 0
integer(MPI_COUNT_KIND) :: large
integer, asynchronous, target :: room(1000)
type(MPI_Session) :: session
call MPI_Init()
call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session)
call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0)
call MPI_Buffer_detach(found, size)
if (.not. c_associated(found, c_loc(MPI_BUFFER_AUTOMATIC))) wrong = wrong + 1
call MPI_Comm_attach_buffer(MPI_COMM_WORLD, MPI_BUFFER_AUTOMATIC, 0)
call MPI_Comm_detach_buffer(MPI_COMM_WORLD, found, large)
if (.not. c_associated(found, c_loc(MPI_BUFFER_AUTOMATIC))) wrong = wrong + 1
call MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0)
call MPI_Session_detach_buffer(session, found, size)
if (.not. c_associated(found, c_loc(MPI_BUFFER_AUTOMATIC))) wrong = wrong + 1
call MPI_Buffer_attach(room, 4000)
call MPI_Buffer_detach(found, size)
if (.not. c_associated(found, c_loc(room)) .or. size /= 4000) wrong = wrong + 1
call MPI_Comm_attach_buffer(MPI_COMM_SELF, room(11), 400)
call MPI_Comm_detach_buffer(MPI_COMM_SELF, found, size)
if (.not. c_associated(found, c_loc(room(11))) .or. size /= 400) wrong = wrong + 1
call MPI_Session_finalize(session)
call MPI_Finalize()
if (wrong == 0) print '(A)', 'ok'
end program
