/* Children have ended, and rank 0 still has a message of one of them, found by a matched probe. When it has been received
 * their places are free: rank 1 starts children there while rank 0 waits for it. Two ranks.
 *
 *   forgotten CHILDREN    as many as there is room for
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int VALUE = 4711;
static char *self;

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Whether a process is over; the starter may keep its number. */
static int is_over(int pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    int found = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    char *end = strrchr(text, ')');
    return !found || !end || end[2] == 'Z' || end[2] == 'X';
}

static void start(int number, MPI_Comm comm, MPI_Comm *inter)
{
    char *words[] = {"child", NULL};
    MPI_Comm_spawn(self, words, number, MPI_INFO_NULL, 0, comm, inter, MPI_ERRCODES_IGNORE);
}

/* The first children leave a message; those of rank 1 leave nothing. */
static int child(MPI_Comm inter)
{
    int parents, me, pid = getpid();
    MPI_Comm all;
    MPI_Comm_remote_size(inter, &parents);
    MPI_Comm_rank(inter, &me);
    if (parents == 2) {
        MPI_Intercomm_merge(inter, 1, &all);
        MPI_Send(&pid, 1, MPI_INT, 1, 0, all);
        if (me == 0)
            MPI_Send(&VALUE, 1, MPI_INT, 0, 0, all);
        MPI_Comm_free(&all);
    }
    MPI_Comm_disconnect(&inter);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    int rank, got = 0;
    self = argv[0];
    MPI_Comm inter, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&inter);
    if (inter != MPI_COMM_NULL)
        return child(inter);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int number = atoi(argv[1]), pids[64];
    start(number, MPI_COMM_WORLD, &inter);
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Message message;
    if (rank == 0)
        MPI_Mprobe(2, 0, all, &message, MPI_STATUS_IGNORE);
    else
        for (int from = 0; from < number; from++)
            MPI_Recv(&pids[from], 1, MPI_INT, 2 + from, 0, all, MPI_STATUS_IGNORE);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("forgotten is %s\n", got == VALUE ? "right" : "wrong");
    } else {
        for (int from = 0; from < number; from++)
            while (!is_over(pids[from]))
                pause_ms(1);
        /* In this time rank 0 may see that they have ended, and cannot forget them yet. */
        pause_ms(300);
        MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
        start(number, MPI_COMM_SELF, &inter);
        MPI_Comm_disconnect(&inter);
        MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
