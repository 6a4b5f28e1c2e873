/*
 * A rank forks after MPI_Init; the child calls MPI. It gets an error, never a signal, and its parent goes on.
 *
 *   forked [return]   `return`: the error handler of MPI_COMM_WORLD is MPI_ERRORS_RETURN, set before the fork
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAG = 4 };

static int value = 7, rank;
static MPI_Request pending;

static int call_send(void) { return MPI_Send(&value, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD); }
static int call_recv(void) { return MPI_Recv(&value, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
static int call_isend(void) { return MPI_Isend(&value, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD, &pending); }
static int call_irecv(void) { return MPI_Irecv(&value, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD, &pending); }
static int call_wait(void) { return MPI_Wait(&pending, MPI_STATUS_IGNORE); }
static int call_barrier(void) { return MPI_Barrier(MPI_COMM_WORLD); }
static int call_allreduce(void) {
    int sum;
    return MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static int call_dup(void) {
    MPI_Comm made;
    return MPI_Comm_dup(MPI_COMM_WORLD, &made);
}
static int call_finalize(void) { return MPI_Finalize(); }
static int call_session(void) {
    MPI_Session session;
    return MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
}

static const struct {
    const char *name;
    int (*call)(void);
    int own_handler; /* The call has an error handler of its own. */
} calls[] = {
    {"MPI_Send", call_send, 0},         {"MPI_Recv", call_recv, 0},       {"MPI_Isend", call_isend, 0},
    {"MPI_Irecv", call_irecv, 0},       {"MPI_Wait", call_wait, 0},       {"MPI_Barrier", call_barrier, 0},
    {"MPI_Allreduce", call_allreduce, 0}, {"MPI_Comm_dup", call_dup, 0},
    {"MPI_Finalize", call_finalize, 0}, {"MPI_Session_init", call_session, 1},
};

int main(int argc, char **argv) {
    int wrong = 0, returns = argc > 1 && strcmp(argv[1], "return") == 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (returns) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    MPI_Irecv(&value, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD, &pending);
    for (size_t i = 0; rank == 0 && i < sizeof calls / sizeof *calls; i++) {
        pid_t child = fork();
        if (child == 0) {
            double t = MPI_Wtime();
            int error = calls[i].call();
            int initialized = 0;
            MPI_Initialized(&initialized);
            _exit(error != MPI_SUCCESS && initialized && t > 0 ? 40 : 41);
        }
        int status = 0, expected = returns || calls[i].own_handler ? 40 : MPI_ERR_OTHER;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) {
            printf("%s in a child: status %#x, expected exit status %d\n", calls[i].name, (unsigned)status, expected);
            wrong = 1;
        }
    }
    /* A worker names itself by the numbers of its rank, in any communicator. */
    MPI_Comm other;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
    pid_t worker = fork();
    if (worker == 0) {
        int numbers[4] = {-1, -1, -1, -1}, length;
        char name[MPI_MAX_PROCESSOR_NAME];
        MPI_Comm_rank(MPI_COMM_WORLD, &numbers[0]);
        MPI_Comm_size(MPI_COMM_WORLD, &numbers[1]);
        MPI_Comm_rank(other, &numbers[2]);
        MPI_Comm_rank(MPI_COMM_SELF, &numbers[3]);
        MPI_Get_processor_name(name, &length);
        _exit(numbers[0] == rank && numbers[1] == 2 && numbers[2] == 1 - rank && numbers[3] == 0 && length > 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(worker, &status, 0);
    if (status != 0) {
        printf("a worker of rank %d does not know its numbers: status %#x\n", rank, (unsigned)status);
        wrong = 1;
    }
    MPI_Comm_free(&other);
    MPI_Barrier(MPI_COMM_WORLD);
    int sent = rank;
    MPI_Send(&sent, 1, MPI_INT, 1 - rank, TAG, MPI_COMM_WORLD);
    MPI_Wait(&pending, MPI_STATUS_IGNORE);
    wrong |= value != 1 - rank;
    MPI_Finalize();
    if (rank == 0 && !wrong) {
        puts("forked: all right");
    }
    return wrong;
}
