/* All ranks sleep for most of the time, and none of them for ever: a token goes round by locks, posts and
   puts, through a network that loses most datagrams. Argument: rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int me, ranks, rounds = atoi(argv[argc - 1]);
    long *memory, seen;
    MPI_Win win;
    MPI_Group all, next, before;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    *memory = 0;
    MPI_Win_get_group(win, &all);
    int after = (me + 1) % ranks, ahead = (me + ranks - 1) % ranks;
    MPI_Group_incl(all, 1, &after, &next);
    MPI_Group_incl(all, 1, &ahead, &before);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        /* One lock that all want. */
        MPI_Win_lock(round % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, round % ranks, 0, win);
        long one = 1;
        MPI_Fetch_and_op(&one, &seen, MPI_LONG, round % ranks, 0, MPI_SUM, win);
        MPI_Win_unlock(round % ranks, win);
        /* Each opens its memory to the one before it. */
        MPI_Win_post(before, 0, win);
        MPI_Win_start(next, 0, win);
        MPI_Accumulate(&one, 1, MPI_LONG, after, 0, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long locked = 0, sum = *memory;
    MPI_Allreduce(&sum, &locked, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0)
        puts(locked == 2L * ranks * rounds ? "patience: all right" : "patience: wrong");
    MPI_Win_free(&win);
    MPI_Finalize();
    return locked != 2L * ranks * rounds;
}
