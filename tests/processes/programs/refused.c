/* The kernel refuses the starter of rank 0 a process: the first of a spawn, the second, and so on. The spawns
   fail, and later ones find all numbers free. Not for root, whom the kernel refuses none. */
#define _GNU_SOURCE
#include "expect.h"
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Processes and threads of the user, at most, that this test has. */
enum { ROOM = 8, WANTED = 4, TASKS = 40 };

/* Whether so many have been started; they end at once. */
static int try_spawn(char *program, int wanted)
{
    MPI_Comm children;
    int class;
    int code = MPI_Comm_spawn(program, MPI_ARGV_NULL, wanted, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                              MPI_ERRCODES_IGNORE);
    if (code == MPI_SUCCESS) {
        MPI_Comm_disconnect(&children);
        return 1;
    }
    MPI_Error_class(code, &class);
    EXPECT(class == MPI_ERR_SPAWN);
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    struct rlimit usual, few;
    int rank, refused = 0;
    /* A child has the limit of the starter that forked it. */
    if (getrlimit(RLIMIT_NPROC, &usual) == 0) {
        usual.rlim_cur = usual.rlim_max;
        setrlimit(RLIMIT_NPROC, &usual);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        pid_t starter = getppid();
        few = usual;
        for (few.rlim_cur = 1; few.rlim_cur <= TASKS; few.rlim_cur++) {
            EXPECT(prlimit(starter, RLIMIT_NPROC, &few, NULL) == 0);
            refused += !try_spawn(argv[0], WANTED);
            EXPECT(prlimit(starter, RLIMIT_NPROC, &usual, NULL) == 0);
        }
        EXPECT(refused > ROOM / WANTED && refused < TASKS);
        for (int round = 0; round < 3; round++)
            EXPECT(try_spawn(argv[0], ROOM));
        printf("refused: all right\n");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
