// Two ranks on two nodes, each a network namespace of root's. When they have met, rank 1 has its node send
// nothing more to the other one: `refuse` by a route that forbids it, `drop` by the address of no card. Then
// it sends for ever.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char refuse[] =
    "to=$(ip -o -4 addr show dev tutti | grep -o '10.213.0.[0-9]*' | head -n 1 | sed 's/2$/1/'); "
    "ip route add prohibit $to/32";
static const char drop[] =
    "to=$(ip -o -4 addr show dev tutti | grep -o '10.213.0.[0-9]*' | head -n 1 | sed 's/2$/1/'); "
    "ip neigh replace $to lladdr 02:00:00:00:00:99 dev tutti";

int main(int argc, char **argv)
{
    static char data[1 << 20];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        if (system(strcmp(argv[1], "drop") == 0 ? drop : refuse) != 0) {
            fprintf(stderr, "cannot cut the way\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        puts("cut");
        fflush(stdout);
    }
    for (;;) {
        if (rank == 1)
            MPI_Send(data, sizeof data, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(data, sizeof data, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}
