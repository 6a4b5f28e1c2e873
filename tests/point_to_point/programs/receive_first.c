/* Rank 1 posts a receive that its sender may write to, and then what the receive needs goes: its memory ("freed"), or rank 1 itself
 * ("left"). Rank 0 sends when it has heard that. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1 << 20)

int main(int argc, char **argv)
{
    int me;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (me == 1) {
        char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MPI_Request request;
        MPI_Irecv(memory, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
        if (strcmp(argv[1], "freed") == 0)
            munmap(memory, BYTES);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        if (strcmp(argv[1], "left") == 0)
            _exit(7);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        puts("received into memory that is not there");
    } else {
        char *text = malloc(BYTES);
        memset(text, 'x', BYTES);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        /* It has gone, or is about to. */
        if (strcmp(argv[1], "left") == 0)
            usleep(100000);
        MPI_Ssend(text, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        puts("sent into memory that is not there");
    }
    MPI_Finalize();
    return 0;
}
