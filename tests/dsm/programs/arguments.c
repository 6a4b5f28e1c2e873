/* Calls of the system whose arguments are shared memory that is not here: each is made by process 1 after process 0 has
 * stored to the pages, and process 0 looks at what the call has left. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define PAGE 4096
#define PLACES 24
#define MARK 0x5a

/* Places on pages of their own, whose homes go round the processes. */
struct shared {
    LOCKDEC(names)
    BARDEC(barrier)
    long wrong;
    char at[PLACES][17 * PAGE];
};

static struct shared *all;
static char folder[64];

#define PLACE(number, type) ((type *)(void *)(all->at[number] + PAGE))

static void check(int is_right, const char *what) {
    if (!is_right) {
        printf("arguments: %s is wrong: %s\n", what, strerror(errno));
        LOCK(all->names);
        all->wrong++;
        UNLOCK(all->names);
    }
}

/* Names and values that calls load: process 0 stores them, process 1 gives them to calls. */
enum { NAME, OTHER_NAME, FOLDER, TEMPLATE, TIME, SET, LOCAL, COMMAND };

/* What process 0 stores before the calls; everything else is marked. */
static void prepare(void) {
    struct sockaddr_un *local = PLACE(LOCAL, struct sockaddr_un);
    sigset_t *set = PLACE(SET, sigset_t);
    for (int place = 0; place < PLACES; place++)
        memset(all->at[place], MARK, sizeof all->at[place]);
    sprintf(PLACE(NAME, char), "%s/name", folder);
    sprintf(PLACE(OTHER_NAME, char), "%s/other", folder);
    strcpy(PLACE(FOLDER, char), folder);
    sprintf(PLACE(TEMPLATE, char), "%s/XXXXXX", folder);
    strcpy(PLACE(COMMAND, char), "exit 3");
    *PLACE(TIME, struct timespec) = (struct timespec){0, 1000};
    sigfillset(set);
    memset(local, 0, sizeof *local);
    local->sun_family = AF_UNIX;
    sprintf(local->sun_path, "%s/local", folder);
}

static void with_files(void) {
    char *name = PLACE(NAME, char), *other = PLACE(OTHER_NAME, char);
    DIR *listed = opendir(PLACE(FOLDER, char));
    int file = open(name, O_RDWR | O_CREAT, 0600), made;
    check(listed != NULL && closedir(listed) == 0, "opendir");
    check(file >= 0 && write(file, "seven b", 7) == 7, "open");
    check(access(name, R_OK) == 0 && access(other, R_OK) == -1, "access");
    check(stat(name, PLACE(8, struct stat)) == 0, "stat");
    check(fstat(file, PLACE(9, struct stat)) == 0, "fstat");
    check(symlink(name, other) == 0 && readlink(other, PLACE(10, char), PAGE) == (ssize_t)strlen(name), "readlink");
    check(unlink(other) == 0 && rename(name, other) == 0, "rename");
    check(unlink(other) == 0, "unlink");
    made = mkstemp(PLACE(TEMPLATE, char));
    check(made >= 0 && close(made) == 0 && unlink(PLACE(TEMPLATE, char)) == 0, "mkstemp");
    check(chdir(PLACE(FOLDER, char)) == 0 && getcwd(PLACE(11, char), PAGE) == PLACE(11, char), "getcwd");
    *PLACE(12, struct flock) = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    check(fcntl(file, F_GETLK, PLACE(12, struct flock)) == 0, "fcntl");
    check(WEXITSTATUS(system(PLACE(COMMAND, char))) == 3, "system");
    close(file);
}

static void with_pipes(void) {
    int *ends = PLACE(13, int);
    struct pollfd *polled = PLACE(14, struct pollfd);
    fd_set *ready = PLACE(15, fd_set);
    struct epoll_event *events = PLACE(16, struct epoll_event);
    int queue = epoll_create1(0);
    check(pipe(ends) == 0 && write(ends[1], "abc", 3) == 3, "pipe");
    polled[0] = (struct pollfd){ends[0], POLLIN, 0};
    check(poll(polled, 1, 0) == 1, "poll");
    polled[0].revents = 0;
    check(ppoll(polled, 1, PLACE(TIME, struct timespec), PLACE(SET, sigset_t)) == 1, "ppoll");
    FD_ZERO(ready);
    FD_SET(ends[0], ready);
    check(select(ends[0] + 1, ready, NULL, NULL, NULL) == 1, "select");
    events[0] = (struct epoll_event){.events = EPOLLIN, .data.fd = 7};
    check(epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], events) == 0, "epoll_ctl");
    check(epoll_wait(queue, events, 4, 0) == 1, "epoll_wait");
    check(ioctl(ends[0], FIONREAD, PLACE(17, int)) == 0, "ioctl");
    close(queue);
    close(ends[0]);
    close(ends[1]);
}

static void with_sockets(void) {
    struct sockaddr *local = PLACE(LOCAL, struct sockaddr);
    socklen_t bytes = sizeof(struct sockaddr_un), *length = PLACE(18, socklen_t);
    int socket_of_it = socket(AF_UNIX, SOCK_DGRAM, 0);
    check(bind(socket_of_it, local, bytes) == 0, "bind");
    check(connect(socket_of_it, local, bytes) == 0, "connect");
    *length = PAGE;
    check(getsockname(socket_of_it, PLACE(19, struct sockaddr), length) == 0, "getsockname");
    bytes = sizeof(int);
    check(getsockopt(socket_of_it, SOL_SOCKET, SO_TYPE, PLACE(20, int), &bytes) == 0, "getsockopt");
    /* A datagram that is longer than the buffer, which ends at a page: the page behind is process 0's, but for a byte. */
    check(send(socket_of_it, folder, sizeof folder, 0) == sizeof folder, "send");
    check(recv(socket_of_it, all->at[18] + 3 * PAGE - 8, 8, MSG_TRUNC) == sizeof folder, "recv");
    all->at[18][3 * PAGE + 60] = 2;
    unlink(PLACE(LOCAL, struct sockaddr_un)->sun_path);
    close(socket_of_it);
}

/* A small stack for signals, and what lies below it. */
static struct {
    char below[64 << 10];
    char stack[8 << 10];
} alternate;

static void with_a_stack(void) {
    stack_t wanted = {.ss_sp = alternate.stack, .ss_size = sizeof alternate.stack}, found;
    check(sigaltstack(&wanted, NULL) == 0, "sigaltstack");
    for (int place = 0; place < PLACES; place++)
        check(all->at[place][16 * PAGE] == MARK, "a load with a small stack for signals");
    for (size_t at = 0; at < sizeof alternate.below; at++)
        check(alternate.below[at] == 0, "memory below the stack for signals");
    check(sigaltstack(NULL, &found) == 0 && found.ss_sp == wanted.ss_sp && found.ss_size == wanted.ss_size, "the stack");
    wanted.ss_size = 16;
    check(sigaltstack(&wanted, NULL) == -1 && errno == ENOMEM, "a stack that is too small");
    wanted.ss_flags = SS_DISABLE;
    check(sigaltstack(&wanted, &found) == 0 && found.ss_flags == 0, "the stack's end");
}

static void with_times_and_signals(void) {
    pid_t child;
    sigset_t *before = PLACE(21, sigset_t);
    check(nanosleep(PLACE(TIME, struct timespec), NULL) == 0, "nanosleep");
    check(pthread_sigmask(SIG_BLOCK, PLACE(SET, sigset_t), before) == 0, "pthread_sigmask");
    /* All is blocked, but for the faults of shared memory. */
    check(PLACE(22, char)[0] == MARK, "a load with all signals blocked");
    check(getrusage(RUSAGE_SELF, PLACE(22, struct rusage)) == 0, "getrusage");
    check(pthread_sigmask(SIG_SETMASK, before, NULL) == 0, "pthread_sigmask");
    child = fork();
    if (child == 0)
        _exit(5);
    check(waitpid(child, PLACE(23, int), 0) == child, "waitpid");
    child = fork();
    if (child == 0)
        _exit(6);
    check(wait3((int *)(void *)(all->at[20] + 3 * PAGE), 0, NULL) == child, "wait3");
    check(uname((struct utsname *)(void *)(all->at[23] + 3 * PAGE)) == 0, "uname");
}

/* What calls have left, and nothing else. */
static void look(void) {
    char *behind;
    check(PLACE(8, struct stat)->st_size == 7 && PLACE(9, struct stat)->st_size == 7, "what stat has left");
    check(memcmp(PLACE(10, char), PLACE(NAME, char), strlen(PLACE(NAME, char))) == 0, "what readlink has left");
    behind = PLACE(10, char) + strlen(PLACE(NAME, char));
    check(behind[0] == MARK && behind[100] == MARK, "what is behind a name");
    check(strncmp(PLACE(11, char), "/", 1) == 0 && strstr(PLACE(11, char), "tutti-arguments-") != NULL, "getcwd's text");
    check(strstr(PLACE(TEMPLATE, char), "XXXXXX") == NULL, "what mkstemp has left");
    check(PLACE(12, struct flock)->l_type == F_UNLCK, "what fcntl has left");
    check(PLACE(13, int)[0] > 2 && PLACE(13, int)[1] > 2, "what pipe has left");
    check(PLACE(14, struct pollfd)->revents == POLLIN, "what ppoll has left");
    check(FD_ISSET(PLACE(13, int)[0], PLACE(15, fd_set)), "what select has left");
    check(PLACE(16, struct epoll_event)->data.fd == 7, "what epoll_wait has left");
    check(PLACE(17, int)[0] == 3, "what ioctl has left");
    check(*PLACE(18, socklen_t) > 2 && strstr(PLACE(19, struct sockaddr_un)->sun_path, "local") != NULL, "a socket's name");
    check(*PLACE(20, int) == SOCK_DGRAM, "what getsockopt has left");
    check(!sigismember(PLACE(21, sigset_t), SIGUSR1), "the mask before");
    check(PLACE(22, struct rusage)->ru_maxrss > 0, "what getrusage has left");
    check(WEXITSTATUS(*PLACE(23, int)) == 5, "what waitpid has left");
    check(WEXITSTATUS(*(int *)(void *)(all->at[20] + 3 * PAGE)) == 6, "what wait3 has left");
    check(memcmp(all->at[18] + 3 * PAGE - 8, folder, 8) == 0, "what recv has left");
    check(all->at[18][3 * PAGE + 50] == 1 && all->at[18][3 * PAGE + 60] == 2, "what is behind a long datagram");
    check(strlen(((struct utsname *)(void *)(all->at[23] + 3 * PAGE))->sysname) > 2, "what uname has left");
}

static void run(void) {
    int me;
    GET_PID(me)
    if (me == 0) {
        mkdir(folder, 0700);
        prepare();
    }
    BARRIER(all->barrier, 2);
    if (me == 1) {
        with_files();
        with_pipes();
        with_sockets();
        with_times_and_signals();
        with_a_stack();
    } else {
        all->at[18][3 * PAGE + 50] = 1;
    }
    BARRIER(all->barrier, 2);
    if (me == 0) {
        look();
        sprintf(PLACE(OTHER_NAME, char), "%s", folder);
        check(chdir("/") == 0 && rmdir(PLACE(OTHER_NAME, char)) == 0, "rmdir");
    }
    BARRIER(all->barrier, 2);
}

int main(void) {
    all = G_MALLOC(sizeof *all);
    all->wrong = 0;
    LOCKINIT(all->names);
    BARINIT(all->barrier, 2);
    /* The same name on all ranks. */
    snprintf(folder, sizeof folder, "/tmp/tutti-arguments-%ld", (long)getpid());
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("arguments: %ld wrong\n", all->wrong);
    MAIN_END;
}
