! A section where a contiguous array must be, and wrong arguments beside a section: the error is raised on the
! object of the call, and its text says the true cause. One rank.
module counted
use mpi_f08
implicit none
integer :: on_comm = 0, on_win = 0, on_session = 0, on_self = 0, wrong = 0
type(MPI_Comm) :: own
contains
subroutine comm_handler(comm, error_code)
type(MPI_Comm) :: comm
integer :: error_code
if (error_code == MPI_SUCCESS) wrong = wrong + 1
if (comm == own) then
  on_comm = on_comm + 1
else
  on_self = on_self + 1
end if
end subroutine
subroutine win_handler(win, error_code)
type(MPI_Win) :: win
integer :: error_code
if (error_code /= MPI_ERR_BUFFER .or. win == MPI_WIN_NULL) wrong = wrong + 1
on_win = on_win + 1
end subroutine
subroutine session_handler(session, error_code)
type(MPI_Session) :: session
integer :: error_code
if (error_code /= MPI_ERR_BUFFER .or. session == MPI_SESSION_NULL) wrong = wrong + 1
on_session = on_session + 1
end subroutine
! What the last call has raised: class, numbers of calls of each handler, words of the text.
subroutine is(what, code, class, comms, wins, sessions, selfs, words)
character(len=*) :: what, words
integer :: code, class, comms, wins, sessions, selfs, found, length
character(len=MPI_MAX_ERROR_STRING) :: text
call MPI_Error_class(code, found)
call MPI_Error_string(code, text, length)
if (found == class .and. on_comm == comms .and. on_win == wins .and. on_session == sessions .and. on_self == selfs &
  .and. index(text, words) > 0) return
wrong = wrong + 1
print '(A,5I4,1X,A)', what, found, on_comm, on_win, on_session, on_self, trim(text)
end subroutine
end module

program sections_refused
use counted
implicit none
integer, asynchronous :: a(8, 8), b(8)
integer :: code
type(MPI_Session) :: session
type(MPI_Win) :: win
type(MPI_Errhandler) :: handler
type(MPI_Request) :: request
type(MPI_Datatype) :: fresh
call MPI_Init()
call MPI_Comm_dup(MPI_COMM_SELF, own)
call MPI_Comm_create_errhandler(comm_handler, handler)
call MPI_Comm_set_errhandler(own, handler)
call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)
call MPI_Win_create_dynamic(MPI_INFO_NULL, own, win)
call MPI_Win_create_errhandler(win_handler, handler)
call MPI_Win_set_errhandler(win, handler)
call MPI_Session_create_errhandler(session_handler, handler)
call MPI_Session_init(MPI_INFO_NULL, handler, session)
a = 0
b = 0
call MPI_Comm_attach_buffer(own, a(1, :), 32, code)
call is('Comm_attach_buffer', code, MPI_ERR_BUFFER, 1, 0, 0, 0, 'MPI_Comm_attach_buffer: buffer is an array section')
call MPI_Win_attach(win, a(1, :), 32_MPI_ADDRESS_KIND, code)
call is('Win_attach', code, MPI_ERR_BUFFER, 1, 1, 0, 0, 'MPI_Win_attach: base is an array section')
call MPI_Session_attach_buffer(session, a(1, :), 32, code)
call is('Session_attach_buffer', code, MPI_ERR_BUFFER, 1, 1, 1, 0, 'MPI_Session_attach_buffer: buffer is an array')
call MPI_Buffer_attach(a(1, :), 32, code)
call is('Buffer_attach', code, MPI_ERR_BUFFER, 1, 1, 1, 1, 'MPI_Buffer_attach: buffer is an array section')
call MPI_Type_contiguous(2, MPI_INTEGER, fresh)
call MPI_Send(a(1, :), 4, fresh, 0, 0, own, code)
call is('Send', code, MPI_ERR_TYPE, 2, 1, 1, 1, 'not committed')
call MPI_Irecv(a(1, :), 9, MPI_INTEGER, 0, 0, own, request, code)
call is('Irecv', code, MPI_ERR_BUFFER, 3, 1, 1, 1, 'MPI_Irecv: the data reach byte 36')
call MPI_Iallreduce(a(1, :), b, 8, MPI_INTEGER, MPI_OP_NULL, own, request, code)
call is('Iallreduce', code, MPI_ERR_OP, 4, 1, 1, 1, 'MPI_Iallreduce: operation')
call MPI_Psend_init(a(1, :), 3, 3, MPI_INTEGER, 0, 0, own, MPI_INFO_NULL, request, code)
call is('Psend_init', code, MPI_ERR_BUFFER, 5, 1, 1, 1, 'MPI_Psend_init: the data reach byte 36')
if (wrong == 0) print '(A)', 'ok'
call MPI_Type_free(fresh)
call MPI_Win_free(win)
call MPI_Session_finalize(session)
call MPI_Comm_free(own)
call MPI_Finalize()
end program
