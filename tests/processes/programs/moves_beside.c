/* Refusals of moves beside invocations and OpenSHMEM, and before MPI runs. */
#include <mpi.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_call.h>
#include <tutti_move.h>

static int rank;

static void expect(int status, const char *text) {
    int found = tutti_move(rank == 0 ? "localhost" : NULL, "x", rank == 0);
    if (found == status && strstr(tutti_move_refusal(), text))
        return;
    printf("rank %d: %d, \"%s\", expected %d, \"%s\"\n", rank, found, tutti_move_refusal(), status, text);
    exit(1);
}

static void run(const void *arguments, size_t bytes, tutti_reply reply) {
    (void)arguments;
    (void)bytes;
    (void)reply;
}

static const tutti_descriptor probe = {TUTTI_CALL_MAGIC, 1, run, "run"};

int main(int argc, char **argv) {
    expect(TUTTI_ERR_RUNNING, "MPI does not run in this process");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (tutti_call_init(&probe) != TUTTI_OK)
        return 1;
    expect(TUTTI_ERR_BUSY, "rank 0 has an open queue, or invocations (tutti_close, tutti_call_quit)");
    tutti_call_quit();
    shmem_init();
    expect(TUTTI_ERR_BUSY, "rank 0 has started OpenSHMEM (shmem_finalize)");
    shmem_finalize();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("refusals are right\n");
    MPI_Finalize();
    expect(TUTTI_ERR_RUNNING, "MPI does not run in this process");
    return 0;
}
