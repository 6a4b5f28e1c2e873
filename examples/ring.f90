! A token goes round the ring; every rank adds its number. Rank 0 checks the sum and prints the time per hop.
!
!   mpiexec -n 4 ./ring [rounds]
program ring
    use mpi_f08
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none
    integer :: rank, ranks, rounds, i
    integer(int64) :: token, mine, expected
    double precision :: start, seconds
    type(MPI_Request) :: arriving
    character(len=16) :: text

    rounds = 1000
    if (command_argument_count() > 0) then
        call get_command_argument(1, text)
        read (text, *) rounds
    end if
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)

    token = 0
    call MPI_Barrier(MPI_COMM_WORLD)
    start = MPI_Wtime()
    do i = 1, rounds
        ! Rank 0 posts its receive before it sends: alone on the ring it is its own neighbour.
        if (rank == 0) then
            call MPI_Irecv(mine, 1, MPI_INTEGER8, ranks - 1, 0, MPI_COMM_WORLD, arriving)
            call MPI_Send(token, 1, MPI_INTEGER8, modulo(1, ranks), 0, MPI_COMM_WORLD)
            call MPI_Wait(arriving, MPI_STATUS_IGNORE)
            token = mine
        else
            call MPI_Recv(token, 1, MPI_INTEGER8, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
            token = token + rank
            call MPI_Send(token, 1, MPI_INTEGER8, modulo(rank + 1, ranks), 0, MPI_COMM_WORLD)
        end if
    end do
    seconds = MPI_Wtime() - start

    if (rank == 0) then
        expected = int(rounds, int64) * ranks * (ranks - 1) / 2
        if (token /= expected) then
            print '(a, i0, a, i0)', 'token ', token, ', expected ', expected
            call MPI_Abort(MPI_COMM_WORLD, 1)
        end if
        write (text, '(f16.3)') seconds * 1.0d6 / rounds / ranks
        print '(i0, a, i0, a, i0, 4a)', rounds, ' rounds over ', ranks, ' ranks: token ', token, &
            ', as expected; ', trim(adjustl(text)), ' us per hop'
    end if
    call MPI_Finalize()
end program ring
