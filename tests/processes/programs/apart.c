/* Two ranks start two children, and both groups leave each other. Then the last one of a group fails. Who is connected with it
 * ends, the others go on: they wait for the end of the other group, and say that they go on.
 *
 *   apart WHO HOW PARTING
 *
 * WHO fails: "child", "parent"; HOW: "kill", "exit", "abort", "fatal"; PARTING: "disconnect", "free", or "again": they disconnect
 * and connect again, by a port. Where they are connected nobody waits for anything, and all are ended.
 *
 *   apart both HOW ROUNDS
 *
 * In each round both children fail at the same time; the parents have no room for more than two. HOW: "abort", or "wrapped", where
 * the children run below a process that does not end by itself. */
#define _GNU_SOURCE
#include "expect.h"
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void fail(const char *how)
{
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "exit") == 0)
        exit(5);
    if (strcmp(how, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 6);
    MPI_Send(NULL, 0, MPI_BYTE, 99, 0, MPI_COMM_WORLD);
}

/* A process that is dead and not waited for is dead. */
static void await_end(int pid)
{
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = process, .events = POLLIN};
    while (process >= 0 && poll(&end, 1, -1) != 1)
        continue;
}

static void wait_in_rounds(char **argv)
{
    MPI_Comm other;
    int rank, pids[2], pid = getpid();
    char *shell[] = {"-c", "setsid \"$0\" \"$@\" & wait; exec sleep 1000", argv[0], argv[1], argv[2], argv[3], NULL};
    int is_wrapped = strcmp(argv[2], "wrapped") == 0;
    MPI_Comm_get_parent(&other);
    if (other != MPI_COMM_NULL) {
        MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, other);
        MPI_Comm_disconnect(&other);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Barrier(MPI_COMM_WORLD);
        while (is_wrapped && rank == 1)
            pause();
        MPI_Abort(MPI_COMM_WORLD, 6);
    }
    for (int round = 0; round < atoi(argv[3]); round++) {
        MPI_Comm_spawn(is_wrapped ? "sh" : argv[0], is_wrapped ? shell : argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other,
                       MPI_ERRCODES_IGNORE);
        MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, other);
        MPI_Comm_disconnect(&other);
        await_end(pids[0]);
        await_end(pids[1]);
    }
    puts("parents go on");
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    MPI_Comm other, again;
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, pid = getpid(), pids[2] = {0}, sum;
    MPI_Init(&argc, &argv);
    EXPECT(argc == 4);
    const char *who = argv[1], *how = argv[2], *parting = argv[3];
    if (strcmp(who, "both") == 0) {
        wait_in_rounds(argv);
        return 0;
    }
    MPI_Comm_get_parent(&other);
    int is_child = other != MPI_COMM_NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!is_child)
        MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, other);
    EXPECT(pids[0] > 0 && pids[1] > 0);
    int connects = strcmp(parting, "again") == 0;
    if (connects && !is_child && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, other);
    } else if (connects && is_child && rank == 0) {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, other, MPI_STATUS_IGNORE);
    }
    if (strcmp(parting, "free") == 0)
        MPI_Comm_free(&other);
    else
        MPI_Comm_disconnect(&other);
    if (connects && is_child)
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &again);
    else if (connects)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &again);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_child == (strcmp(who, "child") == 0)) {
        if (rank == 1)
            fail(how);
        for (;;)
            pause();
    }
    while (strcmp(parting, "disconnect") != 0)
        pause();
    await_end(pids[0]);
    await_end(pids[1]);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(sum == 1);
    if (rank == 0)
        printf("%s go on\n", is_child ? "children" : "parents");
    MPI_Finalize();
    return 0;
}
