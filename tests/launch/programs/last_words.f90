! Prints to a unit that is not the standard output, and aborts.
program last_words
  use mpi_f08
  implicit none
  character(len=4096) :: name
  integer :: rank
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  if (rank == 0) then
    call get_command_argument(1, name)
    open (unit=10, file=trim(name), status='replace')
    write (10, '(a)') 'to the unit'
    print '(a)', 'the reason'
    call MPI_Abort(MPI_COMM_WORLD, 6)
  end if
  call MPI_Barrier(MPI_COMM_WORLD)
end program
