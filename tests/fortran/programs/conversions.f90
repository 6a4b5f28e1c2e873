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
   call MPI_Barrier(MPI_COMM_WORLD, ierror)
   if (rank == 0) print '(a)', "ok"
   call MPI_Finalize(ierror)

contains

   subroutine expect(holds, what)
      logical, intent(in) :: holds
      character(*), intent(in) :: what
      if (holds) return
      print '(2a)', "wrong: ", what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
   end subroutine
end program
