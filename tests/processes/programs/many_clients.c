/* A server that accepts processes of other launches one after another, and clients of which each rank
   connects by itself, says its number, hears it again, and ends. Arguments: "serve", the file with the port's
   name, and how many come; "ask" and the file. */
#define _POSIX_C_SOURCE 200809L
#include "expect.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void serve(const char *file, int count)
{
    char port[MPI_MAX_PORT_NAME], before[4096];
    long sum = 0;
    MPI_Open_port(MPI_INFO_NULL, port);
    snprintf(before, sizeof before, "%s.new", file);
    FILE *out = fopen(before, "w");
    EXPECT(out != NULL && fputs(port, out) >= 0 && fclose(out) == 0 && rename(before, file) == 0);
    for (int client = 0; client < count; client++) {
        MPI_Comm inter, both;
        int said, back, all;
        MPI_Status status;
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        MPI_Recv(&said, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status);
        EXPECT(status.MPI_SOURCE == 0 && status.MPI_TAG == said);
        MPI_Send(&said, 1, MPI_INT, 0, said, inter);
        MPI_Intercomm_merge(inter, 0, &both);
        back = said + 1;
        MPI_Allreduce(&back, &all, 1, MPI_INT, MPI_SUM, both);
        EXPECT(all == 2 * said + 1);
        sum += said;
        MPI_Comm_free(&both);
        MPI_Comm_disconnect(&inter);
    }
    MPI_Close_port(port);
    printf("served %d, sum %ld\n", count, sum);
}

static void ask(const char *file)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter, both;
    int back, all, me = (int)getpid() & 0x7fff;
    struct timespec pause = {0, 1000000};
    FILE *in;
    while ((in = fopen(file, "r")) == NULL)
        nanosleep(&pause, NULL);
    EXPECT(fgets(port, sizeof port, in) != NULL && fclose(in) == 0);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    MPI_Send(&me, 1, MPI_INT, 0, me, inter);
    MPI_Recv(&back, 1, MPI_INT, 0, me, inter, MPI_STATUS_IGNORE);
    EXPECT(back == me);
    MPI_Intercomm_merge(inter, 1, &both);
    MPI_Allreduce(&me, &all, 1, MPI_INT, MPI_SUM, both);
    EXPECT(all == 2 * me + 1);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&inter);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (strcmp(argv[1], "serve") == 0)
        serve(argv[2], atoi(argv[3]));
    else
        ask(argv[2]);
    MPI_Finalize();
    return 0;
}
