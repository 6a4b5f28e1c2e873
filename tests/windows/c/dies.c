/* Rank 0 of a job is killed by the last rank while they use a window; the others wait for it, or work on its
   memory, until the job is ended. The arguments say what they are at, and how the window gets its memory:

   lock      rank 0 holds the exclusive locks of all memory and calls nothing; the others wait for theirs
   ask       the others hold those locks; rank 0 waits for one
   fence     rank 0 and the others are in a fence; the last one is not
   atomics   all change all memory, with elements and long accumulates

   allocate, create */
#define _DEFAULT_SOURCE
#include "killer.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CELLS = 20000 };

static int me, ranks;
static MPI_Win win;

static void change(int target)
{
    static int ones[CELLS], found[CELLS];
    int one = 1, seen;
    MPI_Fetch_and_op(&one, &seen, MPI_INT, target, 0, MPI_SUM, win);
    MPI_Get_accumulate(ones, CELLS, MPI_INT, found, CELLS, MPI_INT, target, 0, CELLS, MPI_INT, MPI_SUM, win);
    MPI_Win_flush(target, win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *what = argv[1];
    int bytes = CELLS * sizeof(int), *memory, *pids = malloc(ranks * sizeof *pids), pid = getpid();
    int is_killer = me == ranks - 1;
    if (strcmp(argv[2], "create") == 0) {
        memory = calloc(1, bytes);
        MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else {
        MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    }
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    if (me == 0)
        printf("job %s\n", getenv("TUTTI_JOB")), fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "lock") == 0) {
        for (int target = 0; me == 0 && target < ranks; target++)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (is_killer)
            kill_when_asleep(pids[0], pids + 1, ranks - 2);
        for (volatile unsigned spins = 0; me == 0;)
            spins++;
        MPI_Win_lock(me % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, me, 0, win);
    } else if (strcmp(what, "ask") == 0) {
        if (me != 0)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (is_killer)
            kill_when_asleep(pids[0], pids, 1);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me == 0 ? ranks - 1 : 0, 0, win);
        if (me != 0)
            MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(what, "fence") == 0) {
        MPI_Win_fence(0, win);
        if (is_killer)
            kill_when_asleep(pids[0], pids, ranks - 1);
        MPI_Win_fence(0, win);
    } else {
        MPI_Win_lock_all(0, win);
        for (int i = 0;; i++) {
            if (is_killer && i == 200)
                kill(pids[0], SIGKILL);
            change(i % ranks);
        }
    }
    fprintf(stderr, "rank %d: the job goes on without rank 0\n", me);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}
