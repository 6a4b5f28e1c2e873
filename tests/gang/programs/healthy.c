/* healthy KIND FOLDER: looks as if no rank could go on, until FOLDER/go is there; then it ends well.
 * All ranks but the first one receive from the one before them. The first one
 * timer: sleeps 0.7 s at a time;
 * poll: waits in poll for a pipe that nobody writes, 1 s at a time;
 * lock: waits for the lock of FOLDER/lock;
 * child: waits for a child that waits for the file;
 * thread: receives from itself what another thread of it sends;
 * request: waits for a generalized request that another thread of it completes;
 * signal: receives from itself what the second function of a signal sends; the first one computes meanwhile;
 * signaled: receives from itself what a function sends, which a function of the last rank starts;
 * put: waits for the end of a long write to the last rank, which stands still in its midst;
 * rput: the same, by a request;
 * behind: the same write; a signal to the last rank has to wait for it; receives what the function sends. */
#define _DEFAULT_SOURCE
#include <mpi.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tutti.h>
#include <unistd.h>

enum { LONG = 64 << 20 };

static char path[4096];
static MPI_Request request;

static int goes(void) {
    return access(path, F_OK) == 0;
}

static void *send_to_itself(void *unused) {
    int word = 0;
    while (!goes())
        usleep(300 * 1000);
    MPI_Send(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    return unused;
}

static void *complete(void *unused) {
    while (!goes())
        usleep(300 * 1000);
    MPI_Grequest_complete(request);
    return unused;
}

static int query(void *unused, MPI_Status *status) {
    (void)unused;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int release(void *unused) {
    (void)unused;
    return MPI_SUCCESS;
}

static int cancel(void *unused, int is_complete) {
    (void)unused;
    (void)is_complete;
    return MPI_SUCCESS;
}

/* A signal's: messages say what it does. */
static void work(const void *data, size_t bytes, int from, void *context) {
    int word = 0;
    const char *what = data;
    (void)bytes, (void)from;
    if (*what == 'c') {
        while (!goes())
            ;
    } else if (*what == 's') {
        MPI_Send(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
    } else {
        while (!goes())
            usleep(300 * 1000);
        if (tutti_put(context, "s", 1, TUTTI_WAIT))
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

/* The signal of the last rank, and memory of it for long writes. */
static tutti_region last_signal;
static MPI_Win window;
static pid_t stopper;

/* Lets a long write to the last rank stand still in its midst, until the file is there. The last rank is stopped
 * when the first byte has come; the first one when it has sent what may be under way, so that it sleeps. Then the
 * last rank takes that, and sleeps too. */
static void stop_in_midst(const volatile char *memory, pid_t first) {
    pid_t last = getpid();
    stopper = fork();
    if (stopper)
        return;
    while (!*memory)
        sched_yield();
    kill(last, SIGSTOP);
    usleep(300 * 1000);
    kill(first, SIGSTOP);
    kill(last, SIGCONT);
    while (!goes())
        usleep(100 * 1000);
    kill(first, SIGCONT);
    _exit(0);
}

/* Opens what the last rank has for the kinds with a long write. */
static void begin_write(int rank, int size) {
    int is_last = rank == size - 1;
    char *memory;
    long pid = getpid();
    MPI_Bcast(&pid, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Win_allocate(is_last ? LONG : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (is_last) {
        if (tutti_signal_open(256, work, NULL, &last_signal))
            MPI_Abort(MPI_COMM_WORLD, 3);
        *memory = 0;
        stop_in_midst(memory, (pid_t)pid);
    }
    MPI_Bcast(&last_signal, sizeof last_signal, MPI_BYTE, size - 1, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
}

static int is_write(const char *kind) {
    return !strcmp(kind, "put") || !strcmp(kind, "rput") || !strcmp(kind, "behind");
}

static void write_long(const char *kind) {
    char *data = malloc(LONG);
    int word, size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(data, 1, LONG);
    if (!strcmp(kind, "rput")) {
        MPI_Rput(data, LONG, MPI_BYTE, size - 1, 0, LONG, MPI_BYTE, window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Put(data, LONG, MPI_BYTE, size - 1, 0, LONG, MPI_BYTE, window);
    }
    if (!strcmp(kind, "behind")) {
        if (tutti_put(&last_signal, "s", 1, 0))
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Recv(&word, 1, MPI_INT, size - 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Win_flush(size - 1, window);
    free(data);
}

static void end_write(int rank, int size) {
    MPI_Win_unlock_all(window);
    if (rank == size - 1 && waitpid(stopper, NULL, 0) != stopper)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Win_free(&window);
}

/* Opens the signals of the first and the last rank and sends what starts the functions. */
static void begin(const char *kind, int rank, int size) {
    static tutti_region own, first;
    if (tutti_signal_open(256, work, &first, &own))
        MPI_Abort(MPI_COMM_WORLD, 3);
    first = own;
    MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
    int status = TUTTI_OK;
    if (strcmp(kind, "signal")) {
        if (rank == size - 1)
            status = tutti_put(&own, "w", 1, TUTTI_WAIT);
    } else if (rank == 0) {
        status = tutti_put(&own, "c", 1, TUTTI_WAIT);
        if (!status)
            status = tutti_put(&own, "s", 1, TUTTI_WAIT);
    }
    if (status)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void first(const char *kind, const char *folder) {
    int word = 0;
    pthread_t thread;
    if (!strcmp(kind, "timer")) {
        while (!goes())
            usleep(700 * 1000);
    } else if (!strcmp(kind, "poll")) {
        int ends[2];
        if (pipe(ends))
            MPI_Abort(MPI_COMM_WORLD, 3);
        struct pollfd silent = {.fd = ends[0], .events = POLLIN};
        while (!goes())
            poll(&silent, 1, 1000);
    } else if (!strcmp(kind, "lock")) {
        char file[4096];
        snprintf(file, sizeof file, "%s/lock", folder);
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int lock = open(file, O_RDWR);
        if (lock < 0 || fcntl(lock, F_SETLKW, &all))
            MPI_Abort(MPI_COMM_WORLD, 3);
    } else if (!strcmp(kind, "child")) {
        pid_t child = fork();
        if (child == 0) {
            while (!goes())
                usleep(300 * 1000);
            _exit(0);
        }
        if (waitpid(child, NULL, 0) != child)
            MPI_Abort(MPI_COMM_WORLD, 3);
    } else if (!strcmp(kind, "thread")) {
        pthread_create(&thread, NULL, send_to_itself, NULL);
        MPI_Recv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
    } else if (!strncmp(kind, "signal", 6)) {
        MPI_Recv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (is_write(kind)) {
        write_long(kind);
    } else if (!strcmp(kind, "request")) {
        MPI_Grequest_start(query, release, cancel, NULL, &request);
        pthread_create(&thread, NULL, complete, NULL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
    } else {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

int main(int argc, char **argv) {
    int level, rank, size, word = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || level < MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 2);
    snprintf(path, sizeof path, "%s/go", argv[2]);
    if (!strncmp(argv[1], "signal", 6))
        begin(argv[1], rank, size);
    if (is_write(argv[1]))
        begin_write(rank, size);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("healthy: up");
    fflush(stdout);
    if (rank == 0)
        first(argv[1], argv[2]);
    else
        MPI_Recv(&word, 1, MPI_INT, rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank < size - 1)
        MPI_Send(&word, 1, MPI_INT, rank + 1, 5, MPI_COMM_WORLD);
    if (is_write(argv[1]))
        end_write(rank, size);
    MPI_Finalize();
    return 0;
}
