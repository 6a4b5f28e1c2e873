/* Two ranks that wait for each other's window lock, or for a post that never comes. Argument: which. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    int me, *memory;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Win_allocate(4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (!strcmp(argv[1], "lock")) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - me, 0, win);
    } else if (me == 0) {
        MPI_Group group;
        MPI_Win_get_group(win, &group);
        MPI_Win_start(group, 0, win);
    } else {
        MPI_Recv(memory, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
