/* Sends, receives and puts of a program, for which instructions are counted inside `measured` (callgrind). With ALONE it is C and has
 * nothing to do with invocations; else it is C++ with tutti.hpp. */
#include <mpi.h>
#include <stdio.h>
#ifndef ALONE
#include <tutti.hpp>
#endif

enum { ROUNDS = 10, TIMES = 4, BYTES_MAX = 4096 };
enum { SEND, RECEIVE, PUT, WAYS };
static char data[BYTES_MAX];

#ifndef ALONE
extern "C"
#endif
__attribute__((noinline)) void measured(int way, MPI_Win win, int bytes)
{
    for (int i = 0; i < TIMES; i++) {
        if (way == SEND) MPI_Send(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        else if (way == RECEIVE) MPI_Recv(data, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Put(data, bytes, MPI_CHAR, 1, 0, bytes, MPI_CHAR, win);
    }
}

int main(int argc, char **argv)
{
    const int lengths[] = {4, 200, BYTES_MAX};
    int rank;
    void *memory;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#ifndef ALONE
    /* Code of invocations is in the program. */
    if (argc > 1) tutti::init(), tutti::invoke(1 - rank, [] {}), tutti::quit();
#endif
    MPI_Win_allocate(BYTES_MAX, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 3 * ROUNDS; i++)
        for (int way = 0; way < WAYS; way++) {
            /* Messages are there before they are received, and taken before others are sent: nothing polls. */
            MPI_Barrier(MPI_COMM_WORLD);
            if (way == RECEIVE && rank == 0) MPI_Send(NULL, 0, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
            if (way == RECEIVE && rank == 1) MPI_Recv(NULL, 0, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == (way == RECEIVE)) measured(way, win, lengths[i % 3]);
        }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    if (rank == 0) printf("unused: ok\n");
    MPI_Finalize();
    return 0;
}
