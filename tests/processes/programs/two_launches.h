/* Included before a program by the compiler (-include): two launches run the program together, and what it
   calls MPI_COMM_WORLD has the ranks of both. LAUNCH says which one this is, "accept" or "connect", and
   PORT_FILE where the port's name stands. */
#define _GNU_SOURCE
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static MPI_Comm both_launches_, between_launches_;

/* The name of the port is there when its file is, under its last name. */
static void say_port_(const char *file, const char *port)
{
    char before[4096];
    snprintf(before, sizeof before, "%s.new", file);
    FILE *out = fopen(before, "w");
    if (out == NULL || fputs(port, out) < 0 || fclose(out) != 0 || rename(before, file) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void read_port_(const char *file, char *port)
{
    struct timespec time = {0, 5000000};
    FILE *in;
    while ((in = fopen(file, "r")) == NULL)
        nanosleep(&time, NULL);
    if (fgets(port, MPI_MAX_PORT_NAME, in) == NULL || fclose(in) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void meet_launch_(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    const char *file = getenv("PORT_FILE");
    int rank, accepts = strcmp(getenv("LAUNCH"), "accept") == 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && accepts) {
        MPI_Open_port(MPI_INFO_NULL, port);
        say_port_(file, port);
    } else if (rank == 0) {
        read_port_(file, port);
    }
    if (accepts)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between_launches_);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between_launches_);
    MPI_Intercomm_merge(between_launches_, !accepts, &both_launches_);
}

static inline int init_launches_(int *argc, char ***argv)
{
    int code = MPI_Init(argc, argv);
    meet_launch_();
    return code;
}

static inline int init_thread_launches_(int *argc, char ***argv, int required, int *provided)
{
    int code = MPI_Init_thread(argc, argv, required, provided);
    meet_launch_();
    return code;
}

static inline int finalize_launches_(void)
{
    MPI_Comm_free(&both_launches_);
    MPI_Comm_disconnect(&between_launches_);
    return MPI_Finalize();
}

#undef MPI_COMM_WORLD
#define MPI_COMM_WORLD both_launches_
#define MPI_Init init_launches_
#define MPI_Init_thread init_thread_launches_
#define MPI_Finalize finalize_launches_
