// Two ranks on two nodes, each a network namespace of root's. When they have met, rank 1 has its node send
// nothing more to the other one: `refuse` by a route that forbids it, `blackhole` by one that leads nowhere,
// `drop` by the address of no card. Then it sends for ever. `heard`: as `refuse`, but the other rank sends, too.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char the_other[] =
    "to=$(ip -o -4 addr show dev tutti | grep -o '10.213.0.[0-9]*' | head -n 1 | sed 's/2$/1/'); ";

static int cut(const char *way)
{
    char line[400];
    if (strcmp(way, "drop") == 0)
        snprintf(line, sizeof line, "%sip neigh replace $to lladdr 02:00:00:00:00:99 dev tutti", the_other);
    else
        snprintf(line, sizeof line, "%sip route add %s $to/32", the_other,
                 strcmp(way, "blackhole") == 0 ? "blackhole" : "prohibit");
    return system(line);
}

int main(int argc, char **argv)
{
    static char data[1 << 20], other[1 << 20];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        if (cut(argv[1]) != 0) {
            fprintf(stderr, "cannot cut the way\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        puts("cut");
        fflush(stdout);
    }
    for (;;) {
        if (strcmp(argv[1], "heard") == 0)
            MPI_Sendrecv(data, sizeof data, MPI_BYTE, 1 - rank, 1, other, sizeof other, MPI_BYTE, 1 - rank, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (rank == 1)
            MPI_Send(data, sizeof data, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(data, sizeof data, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}
