! A system of equations by conjugate gradients: three diagonals, each rank has as many rows. Before each
! product a rank gets all that the others have of the vector, into receives that it has posted before.
program cg
  use mpi
  implicit none
  integer, parameter :: rows = 20000, steps = 20
  double precision, allocatable :: p(:), x(:), r(:), q(:)
  integer, allocatable :: requests(:)
  double precision :: rho, rho_before, alpha, worst, began, took
  integer :: me, ranks, other, step, first, ierror

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  allocate(p(0:rows * ranks + 1), x(rows), r(rows), q(rows), requests(ranks))
  p = 0
  first = me * rows
  began = MPI_Wtime()
  ! The right side is that of a solution of ones.
  p(1:rows * ranks) = 1
  call product
  r = q
  x = 0
  p(first + 1:first + rows) = r
  rho = sum_of(r * r)
  do step = 1, steps
    call exchange
    call product
    alpha = rho / sum_of(p(first + 1:first + rows) * q)
    x = x + alpha * p(first + 1:first + rows)
    r = r - alpha * q
    rho_before = rho
    rho = sum_of(r * r)
    p(first + 1:first + rows) = r + rho / rho_before * p(first + 1:first + rows)
  end do
  took = MPI_Wtime() - began
  call MPI_Allreduce(maxval(abs(x - 1)), worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
  if (me == 0) then
    print '(a,f26.3)', ' Time in seconds = ', took
    if (worst < 1d-6) then
      print '(a)', ' Verification    =               SUCCESSFUL'
    else
      print '(a)', ' Verification    =             UNSUCCESSFUL'
    end if
  end if
  call MPI_Finalize(ierror)

contains

  subroutine product
    integer :: row
    do row = 1, rows
      q(row) = 4 * p(first + row) - p(first + row - 1) - p(first + row + 1)
    end do
  end subroutine

  subroutine exchange
    do other = 0, ranks - 1
      requests(other + 1) = MPI_REQUEST_NULL
      if (other /= me) then
        call MPI_Irecv(p(other * rows + 1), rows, MPI_DOUBLE_PRECISION, other, 1, MPI_COMM_WORLD, &
                       requests(other + 1), ierror)
      end if
    end do
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    do other = 0, ranks - 1
      if (other /= me) then
        call MPI_Send(p(first + 1), rows, MPI_DOUBLE_PRECISION, other, 1, MPI_COMM_WORLD, ierror)
      end if
    end do
    call MPI_Waitall(ranks, requests, MPI_STATUSES_IGNORE, ierror)
  end subroutine

  double precision function sum_of(terms)
    double precision, intent(in) :: terms(:)
    double precision :: mine
    mine = sum(terms)
    call MPI_Allreduce(mine, sum_of, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  end function
end program
