/* Ranks that wait for each other's window lock, or for a post that never comes. Argument: which. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    int me, *memory, value = 0;
    const char *which = argv[argc - 1];
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Win_allocate(4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (!strcmp(which, "lock")) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - me, 0, win);
    } else if (!strcmp(which, "holder")) {
        /* 3 has the lock of its mate 2, and 0, on another node, waits for it. */
        if (me == 3)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
        else
            MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(which, "mate")) {
        /* 0, on another node, has the lock of 2, and 3, the mate of 2, waits for it. */
        if (me == 0)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 3)
            MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
        else
            MPI_Recv(&value, 1, MPI_INT, 3, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(which, "shared")) {
        /* 0 and 3 share the lock of 2, and 1 wants it alone. */
        if (me == 0 || me == 3)
            MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 1)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
        else
            MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (me == 0) {
        MPI_Group all, others;
        int none[] = {0};
        MPI_Win_get_group(win, &all);
        MPI_Group_excl(all, 1, none, &others);
        MPI_Win_start(others, 0, win);
    } else {
        MPI_Recv(memory, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
