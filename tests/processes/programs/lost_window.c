/* Two launches have a window together, and the accepting one is killed in an epoch. The others get an error
   where they depend on it, and nobody waits. The last argument says what they are at:

   lock     the killed rank holds the lock of each other rank's memory
   flush    operations on its memory are under way
   fence    the others are in a fence
   post     the others wait for its post
   wait     the others wait for its complete */
#include "expect.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 16 };

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static int raised;

/* What ends a window is raised while the window is there. */
static void keep_class(MPI_Win *win, int *code, ...)
{
    MPI_Group group;
    EXPECT(MPI_Win_get_group(*win, &group) == MPI_SUCCESS);
    MPI_Group_free(&group);
    raised = class_of(*code);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Errhandler keeps_class;
    MPI_Comm launch;
    MPI_Group all, first;
    MPI_Request request;
    int rank, size, zero = 0, class = MPI_SUCCESS, *memory;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argv[argc - 1];
    /* The ranks of the accepting launch come first. */
    int dies = rank == 0;
    int *data = calloc(COUNT, sizeof *data);
    MPI_Comm_split(MPI_COMM_WORLD, strcmp(getenv("LAUNCH"), "accept") == 0, rank, &launch);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    EXPECT(MPI_Win_allocate(COUNT * sizeof *data, sizeof *data, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win) ==
           MPI_SUCCESS);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &zero, &first);
    if (dies && strcmp(what, "lock") == 0)
        for (int other = 1; other < size; other++)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
    /* It may fail already where the end is known early. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (dies) {
        if (strcmp(what, "flush") == 0)
            /* Some of it is applied, and answered. */
            for (int i = 0; i < 1000; i++)
                MPI_Win_sync(win);
        raise(SIGKILL);
    }
    if (strcmp(what, "lock") == 0) {
        int other = size - 1;
        EXPECT(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win) == MPI_SUCCESS);
        EXPECT(MPI_Put(data, COUNT, MPI_INT, other, 0, COUNT, MPI_INT, win) == MPI_SUCCESS);
        EXPECT(MPI_Win_unlock(other, win) == MPI_SUCCESS);
        class = class_of(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        EXPECT(class == MPI_ERR_PROC_ABORTED);
        class = class_of(MPI_Win_lock_all(0, win));
    } else if (strcmp(what, "flush") == 0) {
        MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
        do {
            request = MPI_REQUEST_NULL;
            class = class_of(MPI_Rget(data, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, win, &request));
            if (class == MPI_SUCCESS)
                class = class_of(MPI_Put(data, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, win));
            if (class == MPI_SUCCESS)
                class = class_of(MPI_Win_flush(0, win));
            if (request != MPI_REQUEST_NULL) {
                int waited = class_of(MPI_Wait(&request, MPI_STATUS_IGNORE));
                EXPECT(waited == MPI_SUCCESS || waited == MPI_ERR_PROC_ABORTED);
            }
        } while (class == MPI_SUCCESS);
        EXPECT(class == MPI_ERR_PROC_ABORTED);
        MPI_Win_unlock_all(win);
    } else if (strcmp(what, "fence") == 0) {
        class = class_of(MPI_Win_fence(0, win));
    } else if (strcmp(what, "post") == 0) {
        class = class_of(MPI_Win_start(first, 0, win));
    } else {
        /* Whether the post itself fails depends on when. */
        class = class_of(MPI_Win_post(first, 0, win));
        if (class == MPI_SUCCESS)
            class = class_of(MPI_Win_wait(win));
    }
    EXPECT(class == MPI_ERR_PROC_ABORTED);
    puts("lost");
    fflush(stdout);
    MPI_Group_free(&all);
    MPI_Group_free(&first);
    if (strcmp(what, "fence") == 0) {
        MPI_Win_create_errhandler(keep_class, &keeps_class);
        MPI_Win_set_errhandler(win, keeps_class);
        MPI_Errhandler_free(&keeps_class);
    }
    /* Each frees the window by itself: nobody of this launch works on it any more. */
    MPI_Barrier(launch);
    MPI_Comm_free(&launch);
    if (strcmp(what, "post") != 0 && strcmp(what, "wait") != 0) {
        EXPECT(class_of(MPI_Win_free(&win)) == MPI_ERR_PROC_ABORTED);
        EXPECT(win == MPI_WIN_NULL);
        EXPECT(raised == (strcmp(what, "fence") == 0 ? MPI_ERR_PROC_ABORTED : 0));
    }
    free(data);
    MPI_Finalize();
    return 0;
}
