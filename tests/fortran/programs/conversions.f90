! Fortran that calls MPI's C functions by BIND(C), with handles and statuses that the conversions of C make.
program conversions
   use, intrinsic :: iso_c_binding
   use mpi
   implicit none

   interface
      integer(c_intptr_t) function comm_f2c(comm) bind(C, name="MPI_Comm_f2c")
         import :: c_int, c_intptr_t
         integer(c_int), value :: comm
      end function
      integer(c_int) function comm_c2f(comm) bind(C, name="PMPI_Comm_c2f")
         import :: c_int, c_intptr_t
         integer(c_intptr_t), value :: comm
      end function
      integer(c_intptr_t) function type_f2c(type) bind(C, name="PMPI_Type_f2c")
         import :: c_int, c_intptr_t
         integer(c_int), value :: type
      end function
      integer(c_int) function send(data, count, type, to, tag, comm) bind(C, name="MPI_Send")
         import :: c_int, c_intptr_t
         integer(c_int), intent(in) :: data(*)
         integer(c_int), value :: count, to, tag
         integer(c_intptr_t), value :: type, comm
      end function
      integer(c_int) function recv(data, count, type, from, tag, comm, status) bind(C, name="MPI_Recv")
         import :: c_int, c_intptr_t
         integer(c_int) :: data(*), status(*)
         integer(c_int), value :: count, from, tag
         integer(c_intptr_t), value :: type, comm
      end function
      integer(c_int) function status_c2f(from, to) bind(C, name="MPI_Status_c2f")
         import :: c_int
         integer(c_int) :: from(*), to(*)
      end function
      integer(c_int) function status_f2c(from, to) bind(C, name="MPI_Status_f2c")
         import :: c_int
         integer(c_int) :: from(*), to(*)
      end function
   end interface

   abstract interface
      integer(c_intptr_t) function to_c(handle) bind(C)
         import :: c_int, c_intptr_t
         integer(c_int), value :: handle
      end function
      integer(c_int) function to_fortran(handle) bind(C)
         import :: c_int, c_intptr_t
         integer(c_intptr_t), value :: handle
      end function
   end interface
   procedure(to_c), bind(C, name="MPI_Group_f2c") :: group_f2c
   procedure(to_fortran), bind(C, name="MPI_Group_c2f") :: group_c2f
   procedure(to_c), bind(C, name="MPI_Op_f2c") :: op_f2c
   procedure(to_fortran), bind(C, name="MPI_Op_c2f") :: op_c2f
   procedure(to_c), bind(C, name="MPI_Info_f2c") :: info_f2c
   procedure(to_fortran), bind(C, name="MPI_Info_c2f") :: info_c2f
   procedure(to_c), bind(C, name="MPI_Errhandler_f2c") :: errhandler_f2c
   procedure(to_fortran), bind(C, name="MPI_Errhandler_c2f") :: errhandler_c2f
   procedure(to_c), bind(C, name="MPI_Message_f2c") :: message_f2c
   procedure(to_fortran), bind(C, name="MPI_Message_c2f") :: message_c2f
   procedure(to_c), bind(C, name="MPI_Request_f2c") :: request_f2c
   procedure(to_fortran), bind(C, name="MPI_Request_c2f") :: request_c2f
   procedure(to_c), bind(C, name="MPI_File_f2c") :: file_f2c
   procedure(to_fortran), bind(C, name="MPI_File_c2f") :: file_c2f
   procedure(to_c), bind(C, name="MPI_Win_f2c") :: win_f2c
   procedure(to_fortran), bind(C, name="MPI_Win_c2f") :: win_c2f
   procedure(to_c), bind(C, name="MPI_Session_f2c") :: session_f2c
   procedure(to_fortran), bind(C, name="MPI_Session_c2f") :: session_c2f

   integer :: group, info, request, win
   integer :: rank, ierror, copy, pair, data(6), given(MPI_STATUS_SIZE), status(MPI_STATUS_SIZE), count
   integer(c_intptr_t) :: comm, type

   call MPI_Init(ierror)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
   call MPI_Comm_dup(MPI_COMM_WORLD, copy, ierror)
   call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierror)
   call MPI_Type_commit(pair, ierror)
   comm = comm_f2c(copy)
   type = type_f2c(pair)
   call expect(comm_c2f(comm) == copy .and. comm_c2f(comm_f2c(MPI_COMM_SELF)) == MPI_COMM_SELF, "handles")
   if (rank == 0) then
      call expect(send([1, 2, 3, 4], 2, type, 1, 5, comm) == MPI_SUCCESS, "send")
   else if (rank == 1) then
      call expect(recv(data, 3, type, 0, MPI_ANY_TAG, comm, given) == MPI_SUCCESS, "receive")
      call expect(all(data(:4) == [1, 2, 3, 4]), "data")
      call expect(status_c2f(given, status) == MPI_SUCCESS, "status")
      call MPI_Get_count(status, pair, count, ierror)
      call expect(count == 2 .and. status(MPI_TAG) == 5 .and. status(MPI_SOURCE) == 0, "contents of the status")
   end if
   call expect(status_f2c(MPI_STATUS_IGNORE, given) == MPI_ERR_ARG, "a status to be ignored")
   call MPI_Comm_group(MPI_COMM_WORLD, group, ierror)
   call MPI_Info_create(info, ierror)
   call MPI_Send_init(data, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request, ierror)
   call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
   call round_trip(group_f2c, group_c2f, group, "group")
   call round_trip(op_f2c, op_c2f, MPI_SUM, "operation")
   call round_trip(info_f2c, info_c2f, info, "info")
   call round_trip(errhandler_f2c, errhandler_c2f, MPI_ERRORS_RETURN, "error handler")
   call round_trip(message_f2c, message_c2f, MPI_MESSAGE_NO_PROC, "message")
   call round_trip(request_f2c, request_c2f, request, "request")
   call round_trip(file_f2c, file_c2f, MPI_FILE_NULL, "file")
   call round_trip(win_f2c, win_c2f, win, "window")
   call round_trip(session_f2c, session_c2f, MPI_SESSION_NULL, "session")
   call MPI_Win_free(win, ierror)
   call MPI_Request_free(request, ierror)
   call MPI_Info_free(info, ierror)
   call MPI_Group_free(group, ierror)
   call MPI_Barrier(MPI_COMM_WORLD, ierror)
   if (rank == 0) print '(a)', "ok"
   call MPI_Finalize(ierror)

contains

   subroutine round_trip(f2c, c2f, handle, what)
      procedure(to_c) :: f2c
      procedure(to_fortran) :: c2f
      integer, intent(in) :: handle
      character(*), intent(in) :: what
      call expect(c2f(f2c(handle)) == handle, what)
   end subroutine

   subroutine expect(holds, what)
      logical, intent(in) :: holds
      character(*), intent(in) :: what
      if (holds) return
      print '(2a)', "wrong: ", what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
   end subroutine
end program
