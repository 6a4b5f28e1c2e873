/* A buffer that no processor can read, as one of a GPU. Words: which rank has it (0 sends, 1 receives), its
 * bytes, and the driver's file that is mapped; none or -: a library says that it is a device's. A fourth word: the
 * kernel refuses single copies, so that the message goes through the ring. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../collectives/c/refuse.h"

int main(int count, char **words) {
    int rank;
    if (count > 4 && refuse_single_copies() != 0) return 3;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t bytes = strtoul(words[2], NULL, 0);
    char *buffer = malloc(bytes);
    if (!buffer) return 2;
    memset(buffer, rank, bytes);
    if (rank == atoi(words[1])) {
        int file = count > 3 && words[3][0] == '/' ? open(words[3], O_RDWR) : -1;
        buffer = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
        if (buffer == MAP_FAILED) return 2;
    }
    if (rank == 0) MPI_Send(buffer, (int)bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(buffer, (int)bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("it went\n");
    MPI_Finalize();
    return 0;
}
