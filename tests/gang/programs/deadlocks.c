/* deadlocks KIND FOLDER: the ranks come to wait for each other for ever once FOLDER/go is there.
 *
 * sends: each even rank and the odd one behind it send each other a large message, and receive afterwards.
 * collectives: rank 0 is in a barrier, the others in a broadcast of rank 0.
 * wildcard: rank 0 receives from any rank what it needs from rank 1 later; rank 1 waits for its answer, the others for rank 0.
 * left: odd ranks have left; each even one waits for the one behind it.
 * pair: ranks 0 and 1 receive from each other; all others have left.
 * signal: as pair, and every rank has a signal open.
 * signaled: as signal, and functions have run before, the last one while its rank waited.
 * function: as signal; rank 0 waits for its own function, which receives from rank 1;
 * put: as pair, behind a long write of rank 0 to the last rank, which stands still in its midst for a while;
 *      the others receive from rank 0. */
#define _DEFAULT_SOURCE
#include <mpi.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <tutti.h>
#include <unistd.h>

enum { LARGE = 1 << 20, LONG = 64 << 20 };

static void receive(int from) {
    int word;
    MPI_Recv(&word, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send(int to) {
    int word = 0;
    MPI_Send(&word, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
}

static atomic_int started;

/* A signal's: a message of more than one byte has it receive and send. */
static void count(const void *data, size_t bytes, int from, void *context) {
    (void)data, (void)from, (void)context;
    if (bytes > 1) {
        receive(1);
        int word = 0;
        MPI_Send(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    }
    started++;
}

static void with_signals(const char *kind, int rank, int size) {
    int word, bytes = strcmp(kind, "function") ? 1 : 2;
    tutti_region own, all[64];
    if (tutti_signal_open(64, count, NULL, &own) || size > 64)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    if (!strcmp(kind, "signaled")) {
        if (tutti_put(&all[(rank + 1) % size], &word, 1, TUTTI_WAIT))
            MPI_Abort(MPI_COMM_WORLD, 3);
        while (started < 1)
            usleep(1000);
        MPI_Barrier(MPI_COMM_WORLD);
        /* Rank 0 waits, and all the time gets signals of rank 1, which waits then too. */
        for (int time = 0; rank == 1 && time < 20; time++) {
            usleep(100 * 1000);
            int status;
            /* The thread that takes them may not have had a core for a while. */
            while ((status = tutti_put(&all[0], &word, 1, TUTTI_WAIT)) == TUTTI_ERR_FULL)
                usleep(1000);
            if (status)
                MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
    if (bytes == 2 && rank == 0) {
        if (tutti_put(&own, &word, 2, TUTTI_WAIT))
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Recv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank < 2) {
        receive(1 - rank);
    }
}

/* Stops this rank when the first byte of a long write is there, longer than the search for deadlocks waits. */
static void stop_in_midst(const volatile char *memory) {
    pid_t rank = getpid();
    if (fork())
        return;
    while (!*memory)
        sched_yield();
    kill(rank, SIGSTOP);
    usleep(3000 * 1000);
    kill(rank, SIGCONT);
    _exit(0);
}

static void with_write(int rank, int size) {
    static char data[LONG];
    char *memory;
    MPI_Win window;
    MPI_Win_allocate(rank == size - 1 ? LONG : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (rank == size - 1) {
        *memory = 0;
        stop_in_midst(memory);
    }
    MPI_Win_lock_all(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        memset(data, 1, LONG);
        MPI_Put(data, LONG, MPI_BYTE, size - 1, 0, LONG, MPI_BYTE, window);
    }
    receive(rank ? 0 : 1);
}

int main(int argc, char **argv) {
    static char large[LARGE];
    char path[4096];
    int level, rank, size, word = 0;
    int functions_call = argc > 1 && !strcmp(argv[1], "function");
    MPI_Init_thread(&argc, &argv, functions_call ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || size < 2 || size % 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const char *kind = argv[1];
    MPI_Barrier(MPI_COMM_WORLD);
    puts("deadlocks: up");
    fflush(stdout);
    snprintf(path, sizeof path, "%s/go", argv[2]);
    while (access(path, F_OK))
        usleep(1000);
    if (!strcmp(kind, "sends")) {
        MPI_Send(large, LARGE, MPI_BYTE, rank ^ 1, 7, MPI_COMM_WORLD);
        MPI_Recv(large, LARGE, MPI_BYTE, rank ^ 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(kind, "collectives")) {
        if (rank == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank > 0)
            MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(kind, "wildcard")) {
        if (rank == 1)
            send(0);
        if (rank == 0) {
            receive(MPI_ANY_SOURCE);
            receive(1);
            for (int to = 1; to < size; to++)
                send(to);
        } else {
            receive(0);
        }
    } else if (!strcmp(kind, "left")) {
        if (rank % 2 == 0)
            receive(rank + 1);
    } else if (!strcmp(kind, "pair")) {
        if (rank < 2)
            receive(1 - rank);
    } else if (!strcmp(kind, "put")) {
        with_write(rank, size);
    } else if (!strcmp(kind, "signal") || !strcmp(kind, "signaled") || !strcmp(kind, "function")) {
        with_signals(kind, rank, size);
    } else {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    return 0;
}
