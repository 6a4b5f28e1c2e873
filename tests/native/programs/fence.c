/* Rank 0 writes to a rank of another node that stands still (SIGSTOP): the fence behind the write begins at once, is pending as long
 * as the target stands, and is over once it goes on. So is another one that begins meanwhile, and each gives the refusals of what was
 * posted before it. */
#define _POSIX_C_SOURCE 200809L
#include "../../windows/c/stopped.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <tutti.h>
#include <unistd.h>

#define CHECK(holds)                                                                  \
    do {                                                                              \
        if (!(holds)) {                                                               \
            fprintf(stderr, "rank %d, line %d: expected %s\n", me, __LINE__, #holds); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                             \
        }                                                                             \
    } while (0)

int main(int argc, char **argv)
{
    int me, pid = (int)getpid();
    int64_t value = 42;
    tutti_region regions[2], readable[2], own, own_readable;
    tutti_fence fence, behind, last;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    int64_t *memory = tutti_alloc(4096);
    CHECK(tutti_open(memory, 4096, TUTTI_READ | TUTTI_WRITE, &own) == TUTTI_OK);
    CHECK(tutti_alias(&own, 0, 4096, TUTTI_READ, &own_readable) == TUTTI_OK);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, regions, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Allgather(&own_readable, sizeof own, MPI_BYTE, readable, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Bcast(&pid, 1, MPI_INT, 1, MPI_COMM_WORLD);
    if (me == 0) {
        CHECK(tutti_fence_start(&fence) == TUTTI_OK);
        CHECK(tutti_fence_wait(&fence) == TUTTI_OK);
        CHECK(kill(pid, SIGSTOP) == 0);
        while (!is_stopped(pid))
            ;
        CHECK(tutti_write(&regions[1], 0, &value, sizeof value, TUTTI_POSTED) == TUTTI_OK);
        CHECK(tutti_fence_start(&fence) == TUTTI_OK);
        CHECK(tutti_write(&readable[1], 8, &value, sizeof value, TUTTI_POSTED) == TUTTI_OK);
        CHECK(tutti_fence_start(&behind) == TUTTI_OK);
        CHECK(tutti_fence_start(&last) == TUTTI_OK);
        for (int look = 0; look < 1000; look++) {
            CHECK(tutti_fence_test(&fence) == TUTTI_PENDING);
            CHECK(tutti_fence_test(&behind) == TUTTI_PENDING);
            CHECK(tutti_fence_test(&last) == TUTTI_PENDING);
        }
        CHECK(is_stopped(pid));
        CHECK(kill(pid, SIGCONT) == 0);
        CHECK(tutti_fence_wait(&fence) == TUTTI_OK);
        CHECK(tutti_fence_test(&fence) == TUTTI_OK);
        CHECK(tutti_fence_wait(&behind) == TUTTI_ERR_RIGHT);
        CHECK(tutti_fence_test(&behind) == TUTTI_ERR_RIGHT);
        CHECK(tutti_fence_wait(&last) == TUTTI_OK);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(me == 0 || memory[0] == 42);
    if (me == 1)
        puts("fence: ok");
    MPI_Finalize();
    return 0;
}
