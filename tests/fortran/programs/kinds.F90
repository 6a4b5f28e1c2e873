! Datatypes of reals are what options of the compiler make of the reals: sizes, sums, places of extremes. FACE says by
! which way MPI is used. Two ranks.
program kinds
#if FACE == 1
implicit none
include 'mpif.h'
#define KIND_OF(t) integer :: t
#elif FACE == 2
use mpi
implicit none
#define KIND_OF(t) integer :: t
#else
use mpi_f08
implicit none
#define KIND_OF(t) type(MPI_Datatype) :: t
#endif
integer :: ierr, me, wrong, n
real :: x(2), x2(2), pair(2), best(2)
double precision :: d, d2, dpair(2), dbest(2)
complex :: z, z2
complex(kind(1d0)) :: w, w2
real(4) :: four, four2
real(8) :: eight, eight2
complex(4) :: z4, z42
complex(8) :: z8, z82
call MPI_Init(ierr)
call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
wrong = 0
call is(MPI_REAL, storage_size(x), 'MPI_REAL')
call is(MPI_DOUBLE_PRECISION, storage_size(d), 'MPI_DOUBLE_PRECISION')
call is(MPI_COMPLEX, storage_size(z), 'MPI_COMPLEX')
call is(MPI_DOUBLE_COMPLEX, storage_size(w), 'MPI_DOUBLE_COMPLEX')
call is(MPI_2REAL, 2 * storage_size(x), 'MPI_2REAL')
call is(MPI_2DOUBLE_PRECISION, 2 * storage_size(d), 'MPI_2DOUBLE_PRECISION')
call is(MPI_REAL4, storage_size(four), 'MPI_REAL4')
call is(MPI_REAL8, storage_size(eight), 'MPI_REAL8')
call is(MPI_COMPLEX8, storage_size(z4), 'MPI_COMPLEX8')
call is(MPI_COMPLEX16, storage_size(z8), 'MPI_COMPLEX16')
call is(MPI_REAL16, 128, 'MPI_REAL16')
x = [1.0 / 3, 2.5]
x2 = -1
call MPI_Allreduce(x, x2, 2, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
if (any(x2 /= 2 * x)) call no('sum of MPI_REAL')
d = 1.d0 / 3
d2 = -1
call MPI_Allreduce(d, d2, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
if (d2 /= 2 * d) call no('sum of MPI_DOUBLE_PRECISION')
z = cmplx(1.0 / 3, me, kind(1.0))
call MPI_Allreduce(z, z2, 1, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
if (z2 /= cmplx(2 * (1.0 / 3), 1, kind(1.0))) call no('sum of MPI_COMPLEX')
w = cmplx(0, me + 1, kind(1d0))
call MPI_Allreduce(w, w2, 1, MPI_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD, ierr)
if (w2 /= cmplx(-2, 0, kind(1d0))) call no('product of MPI_DOUBLE_COMPLEX')
pair = [1.0 / (me + 3), real(me)]
call MPI_Allreduce(pair, best, 1, MPI_2REAL, MPI_MAXLOC, MPI_COMM_WORLD, ierr)
if (any(best /= [1.0 / 3, 0.0])) call no('place of MPI_2REAL')
dpair = [1.d0 / 3, 5.d0 - me]
call MPI_Allreduce(dpair, dbest, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD, ierr)
if (any(dbest /= [1.d0 / 3, 4.d0])) call no('place of MPI_2DOUBLE_PRECISION')
four = 0.1_4
call MPI_Allreduce(four, four2, 1, MPI_REAL4, MPI_SUM, MPI_COMM_WORLD, ierr)
if (four2 /= 2 * four) call no('sum of MPI_REAL4')
eight = 0.1_8
call MPI_Allreduce(eight, eight2, 1, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, ierr)
if (eight2 /= 2 * eight) call no('sum of MPI_REAL8')
z4 = (1, 2)
call MPI_Allreduce(z4, z42, 1, MPI_COMPLEX8, MPI_SUM, MPI_COMM_WORLD, ierr)
if (z42 /= (2, 4)) call no('sum of MPI_COMPLEX8')
z8 = (1, 2)
call MPI_Allreduce(z8, z82, 1, MPI_COMPLEX16, MPI_SUM, MPI_COMM_WORLD, ierr)
if (z82 /= (2, 4)) call no('sum of MPI_COMPLEX16')
if (MPI_Wtime() <= 0 .or. MPI_Wtick() <= 0) call no('time')
call MPI_Allreduce(wrong, n, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
if (me == 0 .and. n == 0) print '(A)', 'ok'
call MPI_Finalize(ierr)
contains
subroutine is(datatype, bits, name)
KIND_OF(datatype)
integer :: bits, bytes
character(len=*) :: name
call MPI_Type_size(datatype, bytes, ierr)
if (bytes /= bits / 8) call no('size of ' // name)
end subroutine
subroutine no(what)
character(len=*) :: what
wrong = wrong + 1
print '(A,A)', 'wrong: ', what
end subroutine
end program
