/* Ranks whose wrapper has closed standard input, output or error. What the program writes there reaches nobody, and
   nothing of the job's: the call is refused as it is without MPI. The arguments are the numbers that are closed. */
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    static char text[4096], data[2][BYTES];
    int me, ranks, refused = 0, right = 1, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(text, 'x', sizeof text);
    memset(data[0], me + 1, BYTES);
    for (int round = 0; round < 3; round++) {
        for (int index = 1; index < argc; index++) {
            int number = atoi(argv[index]);
            errno = 0;
            ssize_t done = number == 0 ? read(0, text, sizeof text) : write(number, text, sizeof text);
            refused += done == -1 && errno == EBADF;
        }
        MPI_Sendrecv(data[0], BYTES, MPI_CHAR, (me + 1) % ranks, 0, data[1], BYTES, MPI_CHAR, (me + ranks - 1) % ranks, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < BYTES; at++)
            right &= data[1][at] == (me + ranks - 1) % ranks + 1;
    }
    right &= refused == 3 * (argc - 1);
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Finalize();
    return all ? 0 : 7;
}
