/* A target that calls nothing: operations on each kind of memory are done meanwhile. It spins on a flag that the
   origin puts behind them, so without progress this never ends. Argument: how many times; 10,000 without. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int me, times = 10000;
    MPI_Init(&argc, &argv);
    if (argc > 1)
        times = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    static long memory[64];
    for (int flavour = 0; flavour < 3; flavour++) {
        MPI_Win win;
        volatile long *cells = memory;
        MPI_Aint base = 0;
        if (flavour == 0) {
            MPI_Win_allocate(sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
        } else if (flavour == 1) {
            MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        } else {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            MPI_Win_attach(win, memory, sizeof memory);
            MPI_Get_address(memory, &base);
            MPI_Bcast(&base, 1, MPI_AINT, 1, MPI_COMM_WORLD);
        }
        for (int i = 0; i < 64; i++)
            cells[i] = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0) {
            long one = 1, found, values[8] = {0};
            MPI_Win_lock_all(0, win);
            for (long i = 0; i < times; i++) {
                MPI_Fetch_and_op(&one, &found, MPI_LONG, 1, base, MPI_SUM, win);
                MPI_Put(&i, 1, MPI_LONG, 1, base + 8, 1, MPI_LONG, win);
                MPI_Accumulate(&one, 1, MPI_LONG, 1, base + 16, 1, MPI_LONG, MPI_SUM, win);
                MPI_Win_flush(1, win);
                if (found != i)
                    printf("fetch-and-add %ld found %ld\n", i, found), MPI_Abort(MPI_COMM_WORLD, 1);
                MPI_Get(values, 2, MPI_LONG, 1, base + 8, 2, MPI_LONG, win);
                MPI_Win_flush(1, win);
                if (values[0] != i || values[1] != i + 1)
                    printf("got %ld %ld at %ld\n", values[0], values[1], i), MPI_Abort(MPI_COMM_WORLD, 1);
            }
            MPI_Put(&one, 1, MPI_LONG, 1, base + 24, 1, MPI_LONG, win);
            MPI_Win_unlock_all(win);
        } else if (me == 1) {
            double sum = 0;
            while (!cells[3])
                sum += 1.0;
            if (cells[0] != times || cells[1] != times - 1 || cells[2] != times)
                printf("%ld %ld %ld (%g)\n", cells[0], cells[1], cells[2], sum), MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (flavour == 2)
            MPI_Win_detach(win, memory);
        MPI_Win_free(&win);
    }
    if (me == 0)
        puts("progress: all right");
    MPI_Finalize();
    return 0;
}
