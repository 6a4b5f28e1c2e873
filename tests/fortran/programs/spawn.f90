! New processes with module mpi_f08, by one program and by several: arguments, hints, codes. Two ranks.
program spawn
use mpi_f08
implicit none
integer :: me, n, wrong, codes(3), total, others, length
character(len=400) :: own
character(len=20) :: argument, arguments(3), lists(2, 2)
character(len=400) :: commands(2)
type(MPI_Comm) :: parent, inter
type(MPI_Info) :: infos(2)
wrong = 0
call MPI_Init()
call MPI_Comm_rank(MPI_COMM_WORLD, me)
call MPI_Comm_size(MPI_COMM_WORLD, n)
call MPI_Comm_get_parent(parent)
call get_command_argument(0, own)
call get_command_argument(1, argument, length)
if (parent /= MPI_COMM_NULL) then
  ! A child sends what it was given: the length of its argument.
  call MPI_Allreduce(length, total, 1, MPI_INTEGER, MPI_SUM, parent)
  call MPI_Comm_disconnect(parent)
  call MPI_Finalize()
  stop
end if
! Blanks at both ends are no part of a string, those in its middle are.
arguments = (/ ' two words  ', 'x           ', '            ' /)
codes = -1
call MPI_Comm_spawn(' ' // trim(own) // '  ', arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes)
call MPI_Comm_remote_size(inter, others)
call MPI_Allreduce(0, total, 1, MPI_INTEGER, MPI_SUM, inter)
if (others /= 2 .or. total /= 2 * 9 .or. any(codes /= (/ 0, 0, -1 /))) wrong = wrong + 1
call MPI_Comm_disconnect(inter)
if (inter /= MPI_COMM_NULL) wrong = wrong + 1
commands = ' ' // trim(own)
lists(:, 1) = (/ '  one  ', ' three ' /)
lists(:, 2) = ' '
infos = MPI_INFO_NULL
call MPI_Comm_spawn_multiple(2, commands, lists, (/ 1, 2 /), infos, 0, MPI_COMM_WORLD, inter, codes)
call MPI_Allreduce(0, total, 1, MPI_INTEGER, MPI_SUM, inter)
if (total /= 3 + 2 * 5 .or. any(codes /= 0)) wrong = wrong + 1
call MPI_Comm_disconnect(inter)
call MPI_Comm_spawn(own, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE)
call MPI_Allreduce(0, total, 1, MPI_INTEGER, MPI_SUM, inter)
if (total /= 0) wrong = wrong + 1
call MPI_Comm_disconnect(inter)
call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
if (me == 0 .and. wrong == 0) print '(A)', 'ok'
if (me == 0 .and. wrong /= 0) print *, 'wrong:', wrong
call MPI_Finalize()
end program
