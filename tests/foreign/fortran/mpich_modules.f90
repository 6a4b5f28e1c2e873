! What object code refers to in modules of MPICH: compiled for the .mod files alone, so that a program finds all
! of it in the library.
module mpi_f08_types
    implicit none
    type, bind(C) :: MPI_Comm
        integer :: MPI_VAL
    end type
    type, bind(C) :: MPI_Datatype
        integer :: MPI_VAL
    end type
    type, bind(C) :: MPI_Op
        integer :: MPI_VAL
    end type
    type, bind(C) :: MPI_Request
        integer :: MPI_VAL
    end type
    type, bind(C) :: MPI_Status
        integer :: count_lo, count_hi_and_cancelled, MPI_SOURCE, MPI_TAG, MPI_ERROR
    end type
    interface operator(==)
        procedure mpi_comm_eq, mpi_comm_f08_eq_f
    end interface
    interface operator(/=)
        procedure mpi_comm_neq
    end interface
contains
    elemental logical function mpi_comm_eq(x, y)
        type(MPI_Comm), intent(in) :: x, y
        mpi_comm_eq = x%MPI_VAL == y%MPI_VAL
    end function
    elemental logical function mpi_comm_neq(x, y)
        type(MPI_Comm), intent(in) :: x, y
        mpi_comm_neq = x%MPI_VAL /= y%MPI_VAL
    end function
    elemental logical function mpi_comm_f08_eq_f(x, y)
        type(MPI_Comm), intent(in) :: x
        integer, intent(in) :: y
        mpi_comm_f08_eq_f = x%MPI_VAL == y
    end function
    integer function mpi_comm_f2c(comm)
        integer, value :: comm
        mpi_comm_f2c = comm
    end function
    subroutine mpi_status_f082f(from, to, ierror)
        type(MPI_Status), intent(in) :: from
        integer, intent(out) :: to(5)
        integer, optional, intent(out) :: ierror
        to = 0
    end subroutine
    subroutine mpi_sizeof_xreal64(x, size, ierror)
        use, intrinsic :: iso_fortran_env, only: real64
        real(real64), dimension(..) :: x
        integer, intent(out) :: size
        integer, optional, intent(out) :: ierror
        size = 0
    end subroutine
end module

module mpi_f08_compile_constants
    use mpi_f08_types
    implicit none
    type(MPI_Comm), parameter :: MPI_COMM_WORLD = MPI_Comm(1140850688)
    type(MPI_Comm), parameter :: MPI_COMM_NULL = MPI_Comm(67108864)
    type(MPI_Datatype), parameter :: MPI_INTEGER = MPI_Datatype(1275069467)
    type(MPI_Op), parameter :: MPI_SUM = MPI_Op(1476395011)
end module

module mpi_f08_link_constants
    use, intrinsic :: iso_c_binding, only: c_int
    use mpi_f08_types
    implicit none
    type(MPI_Status), bind(C, name="MPIR_F08_MPI_STATUS_IGNORE_OBJ"), target :: MPI_STATUS_IGNORE
    type(MPI_Status), bind(C, name="MPIR_F08_MPI_STATUSES_IGNORE_OBJ"), target :: MPI_STATUSES_IGNORE(1)
    integer(c_int), bind(C, name="MPIR_F08_MPI_IN_PLACE"), target :: MPI_IN_PLACE
    integer, target :: MPI_UNWEIGHTED(1)
end module

module mpi_f08
    use mpi_f08_types
    use mpi_f08_compile_constants
    use mpi_f08_link_constants
    implicit none
    interface
        subroutine mpi_init_f08(ierror)
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_finalize_f08(ierror)
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_comm_rank_f08(comm, rank, ierror)
            import
            type(MPI_Comm), intent(in) :: comm
            integer, intent(out) :: rank
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_comm_size_f08(comm, size, ierror)
            import
            type(MPI_Comm), intent(in) :: comm
            integer, intent(out) :: size
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine pmpir_comm_size_f08(comm, size, ierror)
            import
            type(MPI_Comm), intent(in) :: comm
            integer, intent(out) :: size
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_comm_dup_f08(comm, newcomm, ierror)
            import
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Comm), intent(out) :: newcomm
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_comm_free_f08(comm, ierror)
            import
            type(MPI_Comm), intent(inout) :: comm
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_isend_f08ts(buf, count, datatype, dest, tag, comm, request, ierror)
            import
            type(*), dimension(..), intent(in), asynchronous :: buf
            integer, intent(in) :: count, dest, tag
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_recv_f08ts(buf, count, datatype, source, tag, comm, status, ierror)
            import
            type(*), dimension(..) :: buf
            integer, intent(in) :: count, source, tag
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Status) :: status
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_recv_f08ts_large(buf, count, datatype, source, tag, comm, status, ierror)
            import
            type(*), dimension(..) :: buf
            integer(8), intent(in) :: count
            integer, intent(in) :: source, tag
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Status) :: status
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_wait_f08(request, status, ierror)
            import
            type(MPI_Request), intent(inout) :: request
            type(MPI_Status) :: status
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_allreduce_f08ts(sendbuf, recvbuf, count, datatype, op, comm, ierror)
            import
            type(*), dimension(..), intent(in) :: sendbuf
            type(*), dimension(..) :: recvbuf
            integer, intent(in) :: count
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Op), intent(in) :: op
            type(MPI_Comm), intent(in) :: comm
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_iallgather_f08ts(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, &
                request, ierror)
            import
            type(*), dimension(..), intent(in), asynchronous :: sendbuf
            type(*), dimension(..), asynchronous :: recvbuf
            integer, intent(in) :: sendcount, recvcount
            type(MPI_Datatype), intent(in) :: sendtype, recvtype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_pack_external_f08ts(datarep, inbuf, incount, datatype, outbuf, outsize, position, ierror)
            import
            character(len=*), intent(in) :: datarep
            type(*), dimension(..), intent(in) :: inbuf
            integer, intent(in) :: incount
            type(MPI_Datatype), intent(in) :: datatype
            type(*), dimension(..) :: outbuf
            integer(8), intent(in) :: outsize
            integer(8), intent(inout) :: position
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_win_create_f08ts(base, size, disp_unit, info, comm, win, ierror)
            import
            type(*), dimension(..), asynchronous :: base
            integer(8), intent(in) :: size
            integer, intent(in) :: disp_unit, info
            type(MPI_Comm), intent(in) :: comm
            integer, intent(out) :: win
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine mpi_comm_set_errhandler_f08(comm, errhandler, ierror)
            import
            type(MPI_Comm), intent(in) :: comm
            integer, intent(in) :: errhandler
            integer, optional, intent(out) :: ierror
        end subroutine
    end interface
end module
