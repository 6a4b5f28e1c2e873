/*
 * A server and its clients, each a job of its own. The server publishes the name of a port; a client looks it up and
 * connects. Then both are the two groups of an intercommunicator: each gets the sum of the other's ranks.
 *
 *   mpiexec -n 4 ./ports serve sums 2 &          (two clients, then it ends)
 *   mpiexec -n 2 ./ports ask sums
 *   mpiexec -n 3 ./ports ask sums
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the two groups do with each other. */
static void talk(const char *who, int rank, MPI_Comm other) {
    int others, sum;
    MPI_Comm_remote_size(other, &others);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, other);
    if (rank == 0) {
        printf("%s: the other group has %d ranks, their sum is %d\n", who, others, sum);
        fflush(stdout);
    }
    MPI_Comm_disconnect(&other);
}

static void serve(const char *name, int clients, int rank) {
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(name, MPI_INFO_NULL, port);
    }
    for (int i = 0; i < clients; i++) {
        MPI_Comm client;
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &client);
        talk("server", rank, client);
    }
    if (rank == 0) {
        MPI_Unpublish_name(name, MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
}

static void ask(const char *name, int rank) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm server;
    if (rank == 0) {
        /* A lookup does not wait, and the server may still be starting. */
        double start = MPI_Wtime();
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        while (MPI_Lookup_name(name, MPI_INFO_NULL, port) != MPI_SUCCESS) {
            if (MPI_Wtime() - start > 10) {
                fprintf(stderr, "nobody has published %s\n", name);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &server);
    talk("client", rank, server);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc == 4 && strcmp(argv[1], "serve") == 0) {
        serve(argv[2], atoi(argv[3]), rank);
    } else if (argc == 3 && strcmp(argv[1], "ask") == 0) {
        ask(argv[2], rank);
    } else {
        if (rank == 0) {
            fprintf(stderr, "usage: %s serve NAME CLIENTS, or %s ask NAME\n", argv[0], argv[0]);
        }
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
