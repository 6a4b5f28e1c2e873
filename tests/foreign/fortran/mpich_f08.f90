! As programs of MPICH's mpi_f08 are: sections of arrays, arguments left out, handles of modules.
program main
    use mpi_f08
    implicit none
    integer :: me, n, next, last, i, numbers(8), grid(4, 6), ints(5), bytes(8), size
    integer(1) :: packed(16)
    integer(8) :: position
    integer :: win, code
    type(MPI_Comm) :: comm
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    real(8) :: reals(3)
    integer, pointer :: column(:)
    integer, target :: field(3, 4)

    call mpi_init_f08()
    call mpi_comm_rank_f08(MPI_COMM_WORLD, me)
    call mpi_comm_size_f08(MPI_COMM_WORLD, n)
    call pmpir_comm_size_f08(MPI_COMM_WORLD, i)
    call expect(i, n, "size by its profiling name")
    next = mod(me + 1, n)
    last = mod(me + n - 1, n)

    call mpi_comm_dup_f08(MPI_COMM_WORLD, comm)
    if (comm == MPI_COMM_WORLD .or. .not. comm /= MPI_COMM_NULL) call expect(0, 1, "handles differ")
    if (.not. comm == comm%MPI_VAL) call expect(0, 1, "handle and integer")
    call expect(mpi_comm_f2c(comm%MPI_VAL), comm%MPI_VAL, "handle of C")

    ! Every second one, backwards, to a row of a grid.
    numbers = [(100 * me + i, i = 1, 8)]
    grid = -1
    call mpi_isend_f08ts(numbers(8:1:-2), 4, MPI_INTEGER, next, 3, comm, request)
    call mpi_recv_f08ts(grid(2, 2:5), 4, MPI_INTEGER, last, 3, comm, status)
    call mpi_wait_f08(request, MPI_STATUS_IGNORE)
    do i = 1, 4
        call expect(grid(2, i + 1), 100 * last + 10 - 2 * i, "section")
    end do
    call expect(grid(2, 1) + grid(2, 6) + sum(grid(1, :)), -8, "what is beside it")
    call expect(status%MPI_SOURCE, last, "source")
    call mpi_status_f082f(status, ints)
    call expect(ints(4), 3, "tag of a status of integers")

    ! A scalar, a large count, an array of assumed size.
    call mpi_isend_f08ts(me, 1, MPI_INTEGER, next, 4, comm, request, code)
    call expect(code, 0, "code")
    call mpi_recv_f08ts_large(i, 1_8, MPI_INTEGER, last, 4, comm, MPI_STATUS_IGNORE)
    call mpi_wait_f08(request, status)
    call expect(i, last, "scalar")
    call passed(numbers)
    call expect(numbers(1), 100 * last + 1, "array of assumed size")

    ! Copies, within the call and for longer.
    numbers = me
    call mpi_allreduce_f08ts(numbers(1:8:3), grid(1, 1:6:2), 3, MPI_INTEGER, MPI_SUM, comm)
    call expect(sum(grid(1, 1:6:2)), 3 * n * (n - 1) / 2, "sum of sections")
    call expect(sum(grid(1, 2:6:2)), -3, "what is between them")
    call mpi_allreduce_f08ts(MPI_IN_PLACE, numbers(2:3), 2, MPI_INTEGER, MPI_SUM, comm)
    call expect(numbers(2) + numbers(3), n * (n - 1), "sum in place")
    grid = -1
    call mpi_iallgather_f08ts(me, 1, MPI_INTEGER, grid(3, 1:n), 1, MPI_INTEGER, comm, request)
    call mpi_wait_f08(request, MPI_STATUS_IGNORE)
    call expect(sum(grid(3, 1:n)), n * (n - 1) / 2, "gathered into a section")
    call expect(grid(3, n + 1) + grid(2, 1), -2, "what is beside what is gathered")

    ! A pointer, a string with a section behind it.
    field = 7
    column => field(2, :)
    column = [1, 2, 3, 4]
    position = 0
    packed = 0
    call mpi_pack_external_f08ts("external32  ", column(4:2:-1), 3, MPI_INTEGER, packed, 16_8, position, code)
    call expect(code, 0, "code of a packed section")
    call expect(int(position), 12, "packed bytes")
    bytes(1:3) = packed(4:12:4)
    call expect(100 * bytes(1) + 10 * bytes(2) + bytes(3), 432, "big-endian numbers")

    ! What must lie side by side.
    call mpi_comm_set_errhandler_f08(comm, 1409286145)
    call mpi_win_create_f08ts(field(1, :), 16_8, 4, 469762048, comm, win, code)
    if (code == 0) call expect(0, 1, "window of a section")
    call mpi_sizeof_xreal64(reals, size)
    call expect(size, 8, "size of an element")

    call mpi_comm_free_f08(comm)
    if (me == 0) print '(a)', "mpich_f08: all right"
    call mpi_finalize_f08()
contains
    subroutine passed(array)
        integer :: array(*)
        array(1) = 100 * me + 1
        call mpi_isend_f08ts(array, 1, MPI_INTEGER, next, 5, comm, request)
        call mpi_recv_f08ts(i, 1, MPI_INTEGER, last, 5, comm, MPI_STATUS_IGNORE)
        call mpi_wait_f08(request, MPI_STATUS_IGNORE)
        array(1) = i
    end subroutine

    subroutine expect(found, wanted, what)
        integer, intent(in) :: found, wanted
        character(len=*), intent(in) :: what
        if (found /= wanted) then
            print *, what, ": ", found, ", expected ", wanted
            error stop 1
        end if
    end subroutine
end program
