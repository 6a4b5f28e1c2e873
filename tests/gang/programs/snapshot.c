/* snapshot WHAT FOLDER: a program whose messages are looked at from outside.
 *
 * flight: all ranks but the last send it FLIGHT messages when FOLDER/send is there; it receives what it is sent when FOLDER/go is.
 * ring: every rank receives from the next one: nobody goes on.
 * half: ranks 0 and 1 receive from each other, the others compute until FOLDER/go is there.
 * barrier: rank 0 receives a message that nobody sends, the others are in a barrier.
 * wait: every rank receives from the one before it, but the first computes until FOLDER/go is there.
 * bulk: rank 0 sends large messages to the last one until FOLDER/go is there.
 * read: as wait, but the first sleeps in a read of FOLDER/pipe.
 * waitall, waitany: rank 0 waits for messages of ranks 1 and 2, all or any; rank 1 waits for one of rank 0; rank 2 computes until FOLDER/go is there.
 * anysource: rank 0 receives from any rank, the others from it; the last one computes until FOLDER/go is there.
 * asleep: as flight, but the receiver sleeps in a read of FOLDER/pipe, and large messages are among those that it is sent.
 * started: all are in a nonblocking barrier that the last one begins when FOLDER/go is there. Rank 0 waits for a message that rank 2 sends behind it.
 * finalize, detach: rank 0 has sent a large message that rank 1 never receives, and leaves, or takes its buffer back; rank 1 waits for rank 0.
 * absent: as barrier, but another rank computes for good.
 * woken: as ring, until rank 0 gets SIGUSR1, whose handler sends what rank size - 1 waits for; then all compute until FOLDER/go is there.
 *        The others ignore it: they may be awake by then, and no MPI can be called from a handler in the middle of itself. */
#define _DEFAULT_SOURCE
#include <mpi.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FLIGHT = 7, KINDS = 6, BULK = 32 << 20 };

static char path[4096];

static void await(const char *folder, const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    while (access(path, F_OK))
        usleep(1000);
}

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static int last;

static void wake(int number) {
    (void)number;
    int word = 0;
    MPI_Send(&word, 1, MPI_INT, last, 7, MPI_COMM_WORLD);
}

static void flight(int rank, int size, const char *folder) {
    char data[4096] = {0};
    if (rank < size - 1) {
        await(folder, "send");
        memset(data, 'a' + rank, sizeof data);
        for (int i = 0; i < FLIGHT; i++)
            MPI_Send(data, 100 * i + rank, MPI_BYTE, size - 1, 10 * rank + i, MPI_COMM_WORLD);
        say("snapshot: sent");
        await(folder, "go");
        return;
    }
    await(folder, "go");
    for (int i = 0; i < FLIGHT * (size - 1); i++) {
        MPI_Status status;
        int bytes;
        MPI_Recv(data, sizeof data, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        printf("received %d %d %d\n", status.MPI_SOURCE, status.MPI_TAG, bytes);
    }
}

static void asleep(int rank, int size, const char *folder) {
    static const int bytes[KINDS] = {0, 7, 100, 1500, 9000, 300000};
    static char data[KINDS][300000];
    MPI_Request requests[KINDS];
    if (rank < size - 1) {
        await(folder, "send");
        for (int i = 0; i < KINDS; i++)
            MPI_Isend(data[i], bytes[i], MPI_BYTE, size - 1, 10 * rank + i, MPI_COMM_WORLD, &requests[i]);
        say("snapshot: sent");
        await(folder, "go");
        MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE);
        return;
    }
    char byte;
    snprintf(path, sizeof path, "%s/pipe", folder);
    int pipe = open(path, O_RDONLY);
    if (read(pipe, &byte, 1) < 0)
        MPI_Abort(MPI_COMM_WORLD, 9);
    for (int i = 0; i < KINDS * (size - 1); i++) {
        MPI_Status status;
        int count;
        MPI_Recv(data[0], sizeof data[0], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        printf("received %d %d %d\n", status.MPI_SOURCE, status.MPI_TAG, count);
    }
}

/* Rank 0 waits for two others, of which one waits for it. */
static void several(int rank, int any, const char *folder) {
    int words[2], word = 0, index;
    if (rank == 0) {
        MPI_Request requests[2];
        MPI_Irecv(&words[0], 1, MPI_INT, 2, 8, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&words[1], 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[1]);
        if (any) {
            MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
            MPI_Send(&word, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    } else if (rank == 2) {
        await(folder, "go");
        MPI_Send(&word, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
    }
}

static void any_source(int rank, int size, const char *folder) {
    int word = 0;
    if (rank == 0) {
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int to = 1; to < size - 1; to++)
            MPI_Send(&word, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
    } else if (rank < size - 1) {
        MPI_Recv(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        await(folder, "go");
        MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    }
}

static void started(int rank, int size, const char *folder) {
    MPI_Request barrier;
    int word = 0;
    if (rank == size - 1)
        await(folder, "go");
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, 2, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    if (rank == 2)
        MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
}

/* Rank 0 leaves with a message that nobody receives; `detach`: it does not come so far. */
static void unreceived(int rank, int detach) {
    static char data[300000], buffer[400000];
    void *given;
    int bytes;
    if (rank == 0 && detach) {
        MPI_Buffer_attach(buffer, sizeof buffer);
        MPI_Bsend(data, sizeof data, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        MPI_Buffer_detach(&given, &bytes);
    } else if (rank == 0) {
        MPI_Request request;
        MPI_Isend(data, sizeof data, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Recv(&bytes, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    int rank, size, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argv[1], *folder = argc > 2 ? argv[2] : ".";
    MPI_Barrier(MPI_COMM_WORLD);
    say("snapshot: up");
    if (!strcmp(what, "flight")) {
        flight(rank, size, folder);
    } else if (!strcmp(what, "asleep")) {
        asleep(rank, size, folder);
    } else if (!strcmp(what, "ring")) {
        MPI_Recv(&word, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(what, "woken")) {
        last = size - 1;
        signal(SIGUSR1, rank == 0 ? wake : SIG_IGN);
        MPI_Recv(&word, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank > 0)
            MPI_Send(&word, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD);
        await(folder, "go");
    } else if (!strcmp(what, "bulk")) {
        static char data[BULK];
        for (int more = 1; more && (rank == 0 || rank == size - 1);) {
            if (rank == 0) {
                snprintf(path, sizeof path, "%s/go", folder);
                more = access(path, F_OK) != 0;
                MPI_Send(data, BULK, MPI_BYTE, size - 1, 3, MPI_COMM_WORLD);
                MPI_Send(&more, 1, MPI_INT, size - 1, 4, MPI_COMM_WORLD);
            } else {
                MPI_Recv(data, BULK, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Recv(&more, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
        }
    } else if (!strcmp(what, "half")) {
        if (rank < 2)
            MPI_Recv(&word, 1, MPI_INT, 1 - rank, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            await(folder, "go");
    } else if (!strcmp(what, "waitall") || !strcmp(what, "waitany")) {
        several(rank, !strcmp(what, "waitany"), folder);
    } else if (!strcmp(what, "anysource")) {
        any_source(rank, size, folder);
    } else if (!strcmp(what, "finalize") || !strcmp(what, "detach")) {
        unreceived(rank, !strcmp(what, "detach"));
    } else if (!strcmp(what, "started")) {
        started(rank, size, folder);
    } else if (!strcmp(what, "barrier") || !strcmp(what, "absent")) {
        if (rank == size - 1 && !strcmp(what, "absent"))
            await(folder, "go");
        if (rank == 0)
            MPI_Recv(&word, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        if (rank == 0 && !strcmp(what, "read")) {
            char byte;
            snprintf(path, sizeof path, "%s/pipe", folder);
            int pipe = open(path, O_RDONLY);
            if (read(pipe, &byte, 1) < 0)
                MPI_Abort(MPI_COMM_WORLD, 9);
        } else if (rank == 0)
            await(folder, "go");
        else
            MPI_Recv(&word, 1, MPI_INT, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank < size - 1)
            MPI_Send(&word, 1, MPI_INT, rank + 1, 5, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
