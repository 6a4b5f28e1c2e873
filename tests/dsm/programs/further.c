/* Further calls whose arguments are shared memory that is not here: each is made by process 1 after process 0 has stored to
 * the pages, and process 0 looks at what the call has left. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <mqueue.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define PAGE 4096
#define PLACES 64
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
        printf("further: %s is wrong: %s\n", what, strerror(errno));
        LOCK(all->names);
        all->wrong++;
        UNLOCK(all->names);
    }
}

/* What a system may not have at all. */
static int is_absent(void) {
    return errno == ENOSYS || errno == ENOTSUP || errno == EPERM || errno == EACCES || errno == EINVAL;
}

/* What process 0 stores before the calls. */
enum { NAME, OTHER_NAME, THIRD_NAME, FOLDER, TEMPLATE, TIME, FUTURE, TEXT, SHELL, OPTION, COMMAND, ARGUMENTS, MESSAGES, PIECES, OUT,
       NOTES, QUEUE, SETTINGS, FOUND };

static const char text[] = "words of process 0";

static void prepare(void) {
    struct mmsghdr *messages = PLACE(MESSAGES, struct mmsghdr);
    struct iovec *pieces = PLACE(PIECES, struct iovec);
    char **arguments = PLACE(ARGUMENTS, char *);
    for (int place = 0; place < PLACES; place++)
        memset(all->at[place], MARK, sizeof all->at[place]);
    sprintf(PLACE(NAME, char), "%s/name", folder);
    sprintf(PLACE(OTHER_NAME, char), "%s/other", folder);
    sprintf(PLACE(THIRD_NAME, char), "%s/third", folder);
    strcpy(PLACE(FOLDER, char), folder);
    sprintf(PLACE(TEMPLATE, char), "%s/XXXXXX.txt", folder);
    *PLACE(TIME, struct timespec) = (struct timespec){0, 1000};
    clock_gettime(CLOCK_REALTIME, PLACE(FUTURE, struct timespec));
    PLACE(FUTURE, struct timespec)->tv_nsec = 0;
    strcpy(PLACE(TEXT, char), text);
    strcpy(PLACE(51, struct ifreq)->ifr_name, "lo");
    strcpy(PLACE(SHELL, char), "/bin/sh");
    strcpy(PLACE(OPTION, char), "-c");
    strcpy(PLACE(COMMAND, char), "exit 4");
    arguments[0] = PLACE(SHELL, char), arguments[1] = PLACE(OPTION, char), arguments[2] = PLACE(COMMAND, char), arguments[3] = NULL;
    memset(messages, 0, 4 * sizeof *messages);
    for (int number = 0; number < 4; number++) {
        pieces[number].iov_base = number < 2 ? PLACE(TEXT, char) : PLACE(FOUND + number, char);
        pieces[number].iov_len = number < 2 ? (size_t)(5 + number) : PAGE;
        messages[number].msg_hdr.msg_iov = &pieces[number];
        messages[number].msg_hdr.msg_iovlen = 1;
    }
    sprintf(PLACE(QUEUE, char), "/tutti-further-%ld", (long)getpid());
    memset(PLACE(SETTINGS, struct mq_attr), 0, sizeof(struct mq_attr));
    PLACE(SETTINGS, struct mq_attr)->mq_maxmsg = 4;
    PLACE(SETTINGS, struct mq_attr)->mq_msgsize = 64;
    PLACE(SETTINGS, unsigned short)[1000] = 3;
    PLACE(SETTINGS, unsigned short)[1001] = 4;
}

static int visited;

static int visit(const char *path, const struct stat *found, int kind, struct FTW *place) {
    (void)path, (void)found, (void)kind, (void)place;
    visited++;
    return 0;
}

/* Functions of the C library that hand a name to the kernel by themselves. */
static void with_names(void) {
    struct dirent **list;
    glob_t found;
    FILE *stream = fopen(PLACE(NAME, char), "w");
    check(stream != NULL && fputs("by a stream", stream) >= 0 && fclose(stream) == 0, "fopen");
    check(scandir(PLACE(FOLDER, char), &list, NULL, alphasort) == 3, "scandir");
    check(nftw(PLACE(FOLDER, char), visit, 4, FTW_PHYS) == 0 && visited == 2, "nftw");
    check(glob(PLACE(NAME, char), 0, NULL, &found) == 0 && found.gl_pathc == 1, "glob");
    check(unlink(PLACE(NAME, char)) == 0, "unlink");
    globfree(&found);
}

static void with_files(void) {
    char *name = PLACE(NAME, char), *other = PLACE(OTHER_NAME, char), *third = PLACE(THIRD_NAME, char);
    int file = open(name, O_RDWR | O_CREAT, 0600), listed = open(PLACE(FOLDER, char), O_RDONLY | O_DIRECTORY), made;
    FILE *stream = fdopen(dup(file), "w");
    check(stream != NULL && fputs(PLACE(TEXT, char), stream) >= 0 && fclose(stream) == 0, "fputs");
    check(statx(AT_FDCWD, name, 0, STATX_SIZE, PLACE(24, struct statx)) == 0, "statx");
    check(linkat(AT_FDCWD, name, AT_FDCWD, other, 0) == 0, "linkat");
    check(renameat2(AT_FDCWD, other, AT_FDCWD, third, 0) == 0 || errno == EINVAL, "renameat2");
    check(unlink(third) == 0 && symlinkat(name, AT_FDCWD, third) == 0 && unlink(third) == 0, "symlinkat");
    check(mkfifoat(AT_FDCWD, other, 0600) == 0 && unlinkat(AT_FDCWD, other, 0) == 0, "mkfifoat");
    check(pathconf(name, _PC_NAME_MAX) > 10 && eaccess(name, R_OK) == 0, "pathconf");
    check(listxattr(name, PLACE(25, char), PAGE) >= 0 || is_absent(), "listxattr");
    check(lgetxattr(name, "user.none", PLACE(25, char), PAGE) >= 0 || errno == ENODATA || is_absent(), "lgetxattr");
    check(getdents64(listed, PLACE(26, char), PAGE) > 0, "getdents64");
    made = mkostemps(PLACE(TEMPLATE, char), 4, O_CLOEXEC);
    check(made >= 0 && close(made) == 0 && unlink(PLACE(TEMPLATE, char)) == 0, "mkostemps");
    check(unlink(name) == 0, "unlink");
    close(listed);
    close(file);
}

static void with_messages(void) {
    int ends[2], asked = socket(AF_INET, SOCK_DGRAM, 0);
    struct mmsghdr *messages = PLACE(MESSAGES, struct mmsghdr);
    check(ioctl(asked, SIOCGIFFLAGS, PLACE(51, struct ifreq)) == 0 && close(asked) == 0, "ioctl");
    check(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0, "socketpair");
    check(sendmmsg(ends[0], messages, 2, 0) == 2, "sendmmsg");
    check(recvmmsg(ends[1], messages + 2, 2, MSG_WAITFORONE, PLACE(TIME, struct timespec)) >= 1, "recvmmsg");
    check(recvmmsg(ends[1], messages + 2, 1, MSG_DONTWAIT, NULL) <= 1, "recvmmsg");
    check(send(ends[0], text, 5, 0) == 5, "send");
    *PLACE(56, struct timespec) = (struct timespec){100, 0};
    check(recvmmsg(ends[1], messages + 2, 1, 0, PLACE(56, struct timespec)) == 1, "recvmmsg");
    check(PLACE(56, struct timespec)->tv_sec == 99, "the rest of a limit");
    /* Where no address is wanted, the length may lead anywhere. */
    check(send(ends[0], text, 5, 0) == 5, "send");
    check(recvfrom(ends[1], PLACE(57, char), 5, 0, NULL, (socklen_t *)16) == 5, "recvfrom");
    close(ends[0]);
    close(ends[1]);
}

static void with_pieces(void) {
    int ends[2], file = memfd_create("further", 0);
    static char private[] = "of one's own";
    struct iovec out = {PLACE(TEXT, char), sizeof text}, in = {PLACE(27, char), PAGE};
    struct iovec own = {private, sizeof private}, found = {PLACE(28, char), sizeof private};
    check(pwritev2(file, &out, 1, 7, 0) == sizeof text && preadv2(file, &in, 1, 7, 0) == sizeof text, "pwritev2");
    check(pipe(ends) == 0 && vmsplice(ends[1], &out, 1, 0) == sizeof text, "vmsplice");
    check(read(ends[0], PLACE(29, char), PAGE) == sizeof text, "read behind vmsplice");
    check(process_vm_readv(getpid(), &found, 1, &own, 1, 0) == sizeof private || is_absent(), "process_vm_readv");
    if (PLACE(28, char)[0] == MARK)
        memcpy(PLACE(28, char), private, sizeof private);
    check(syscall(SYS_pwrite64, file, PLACE(TEXT, char), sizeof text, 0L) == sizeof text, "syscall");
    check(syscall(SYS_pread64, file, PLACE(30, char), (long)PAGE, 0L) >= (long)sizeof text, "syscall");
    close(ends[0]);
    close(ends[1]);
    close(file);
}

static void with_queues(void) {
    int set = semget(IPC_PRIVATE, 2, 0600), queue = msgget(IPC_PRIVATE, 0600), segment = shmget(IPC_PRIVATE, PAGE, 0600);
    mqd_t messages = mq_open(PLACE(QUEUE, char), O_RDWR | O_CREAT, 0600, PLACE(SETTINGS, struct mq_attr));
    struct sembuf *operation = PLACE(31, struct sembuf);
    *operation = (struct sembuf){0, -1, 0};
    if (set >= 0) {
        check(semctl(set, 0, SETALL, PLACE(SETTINGS, unsigned short) + 1000) == 0, "semctl");
        check(semtimedop(set, operation, 1, PLACE(TIME, struct timespec)) == 0, "semtimedop");
        check(semctl(set, 0, GETALL, PLACE(32, unsigned short)) == 0, "semctl");
        check(semctl(set, 0, IPC_STAT, PLACE(33, struct semid_ds)) == 0 && semctl(set, 0, IPC_RMID) == 0, "semctl");
    }
    if (queue >= 0)
        check(msgctl(queue, IPC_STAT, PLACE(34, struct msqid_ds)) == 0 && msgctl(queue, IPC_RMID, NULL) == 0, "msgctl");
    if (segment >= 0)
        check(shmctl(segment, IPC_STAT, PLACE(35, struct shmid_ds)) == 0 && shmctl(segment, IPC_RMID, NULL) == 0, "shmctl");
    if (messages == (mqd_t)-1) {
        check(is_absent(), "mq_open");
        strcpy(PLACE(36, char), text);
    } else {
        check(mq_timedsend(messages, PLACE(TEXT, char), sizeof text, 3, PLACE(FUTURE, struct timespec)) == 0, "mq_send");
        check(mq_getattr(messages, PLACE(37, struct mq_attr)) == 0, "mq_getattr");
        check(mq_receive(messages, PLACE(36, char), 64, PLACE(38, unsigned)) == sizeof text, "mq_receive");
        /* Without O_CREAT the attributes may lead anywhere: here behind all that was given. */
        mqd_t again = mq_open(PLACE(QUEUE, char), O_RDONLY, 0, (void *)((char *)all + (1 << 30)));
        check(again != (mqd_t)-1 && mq_close(again) == 0, "mq_open of a queue");
        check(mq_close(messages) == 0 && mq_unlink(PLACE(QUEUE, char)) == 0, "mq_unlink");
    }
}

static void with_times_and_names(void) {
    int queue = epoll_create1(0), event = eventfd(41, 0);
    struct epoll_event *events = PLACE(39, struct epoll_event);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    sem_t none;
    timer_t *timer = PLACE(40, timer_t);
    struct sigevent *when = PLACE(41, struct sigevent);
    memset(when, 0, sizeof *when);
    when->sigev_notify = SIGEV_NONE;
    *events = (struct epoll_event){.events = EPOLLIN, .data.fd = 9};
    check(epoll_ctl(queue, EPOLL_CTL_ADD, event, events) == 0, "epoll_ctl");
    check(epoll_pwait2(queue, events, 2, PLACE(TIME, struct timespec), NULL) == 1 || is_absent(), "epoll_pwait2");
    check(eventfd_read(event, PLACE(42, eventfd_t)) == 0, "eventfd_read");
    check(timer_create(CLOCK_MONOTONIC, when, timer) == 0 && timer_delete(*timer) == 0, "timer_create");
    check(sched_rr_get_interval(0, PLACE(43, struct timespec)) == 0, "sched_rr_get_interval");
    check(pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), PLACE(44, cpu_set_t)) == 0, "pthread_getaffinity_np");
    check(pthread_setname_np(pthread_self(), PLACE(OPTION, char)) == 0, "pthread_setname_np");
    check(pthread_getname_np(pthread_self(), PLACE(45, char), PAGE) == 0, "pthread_getname_np");
    check(prctl(PR_SET_NAME, PLACE(COMMAND, char)) == 0 && prctl(PR_GET_NAME, PLACE(46, char)) == 0, "prctl");
    check(thrd_sleep(PLACE(TIME, struct timespec), NULL) == 0, "thrd_sleep");
    memset(PLACE(47, struct timex), 0, sizeof(struct timex));
    check(adjtimex(PLACE(47, struct timex)) >= 0 || is_absent(), "adjtimex");
    check(mincore(all, PAGE, PLACE(48, unsigned char)) == 0, "mincore");
    pthread_mutex_lock(&mutex);
    check(pthread_cond_timedwait(&changed, &mutex, PLACE(FUTURE, struct timespec)) == ETIMEDOUT, "pthread_cond_timedwait");
    pthread_mutex_unlock(&mutex);
    check(sem_init(&none, 0, 0) == 0 && sem_timedwait(&none, PLACE(FUTURE, struct timespec)) == -1 && errno == ETIMEDOUT,
          "sem_timedwait");
    close(queue);
    close(event);
}

static void with_programs_and_numbers(void) {
    int status = 0;
    char **arguments = PLACE(ARGUMENTS, char *);
    pid_t *child = PLACE(49, pid_t);
    check(posix_spawn(child, arguments[0], NULL, NULL, arguments, NULL) == 0, "posix_spawn");
    check(waitpid(*child, &status, 0) == *child && WEXITSTATUS(status) == 4, "what was spawned");
    arc4random_buf(PLACE(50, char), 3 * PAGE);
    /* A word that this call does not have. */
    check(syscall(SYS_gettid, PLACE(TEXT, char)) > 0, "syscall");
}

/* What calls have left, and nothing else. */
static void look(void) {
    int moved = 0;
    struct mmsghdr *messages = PLACE(MESSAGES, struct mmsghdr);
    check(PLACE(24, struct statx)->stx_size == sizeof text - 1, "what statx has left");
    check(PLACE(26, struct dirent64)->d_reclen > 10, "what getdents64 has left");
    check(strstr(PLACE(TEMPLATE, char), "XXXXXX") == NULL, "what mkostemps has left");
    check(messages[0].msg_len == 5 && messages[1].msg_len == 6, "what sendmmsg has left");
    check(messages[2].msg_len >= 5 && memcmp(PLACE(FOUND + 2, char), text, 5) == 0, "what recvmmsg has left");
    check(PLACE(FOUND + 2, char)[20] == MARK, "what is behind a message");
    check(strcmp(PLACE(27, char), text) == 0 && strcmp(PLACE(29, char), text) == 0, "what preadv2 has left");
    check(PLACE(27, char)[sizeof text] == MARK && PLACE(29, char)[sizeof text] == MARK, "what is behind a piece");
    check(strcmp(PLACE(28, char), "of one's own") == 0, "what process_vm_readv has left");
    check(memcmp(PLACE(30, char), text, 7) == 0 && PLACE(30, char)[100] == MARK, "what syscall has left");
    check(PLACE(32, unsigned short)[0] == 2 && PLACE(32, unsigned short)[1] == 4, "what semctl has left");
    check(PLACE(32, unsigned char)[4] == MARK && PLACE(33, struct semid_ds)->sem_nsems == 2, "what semctl has left");
    check(PLACE(34, struct msqid_ds)->msg_qnum == 0 && PLACE(35, struct shmid_ds)->shm_segsz == PAGE, "what msgctl has left");
    check(strcmp(PLACE(36, char), text) == 0, "what mq_receive has left");
    check((PLACE(51, struct ifreq)->ifr_flags & IFF_LOOPBACK) != 0, "what ioctl has left");
    check(*PLACE(42, eventfd_t) == 41, "what eventfd_read has left");
    check(CPU_COUNT(PLACE(44, cpu_set_t)) > 0 && PLACE(43, struct timespec)->tv_sec == 0, "what affinity has left");
    check(strcmp(PLACE(45, char), "-c") == 0 && PLACE(45, char)[16] == MARK, "the name of a thread");
    check(strcmp(PLACE(46, char), "exit 4") == 0, "the name of a thread");
    check(*PLACE(48, unsigned char) <= 1 && PLACE(48, unsigned char)[1] == MARK, "what mincore has left");
    for (int at = 0; at < 3 * PAGE; at++)
        moved += PLACE(50, char)[at] != MARK;
    check(moved > 2 * PAGE && PLACE(50, char)[3 * PAGE] == MARK, "what arc4random_buf has left");
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
        with_names();
        with_files();
        with_messages();
        with_pieces();
        with_queues();
        with_times_and_names();
        with_programs_and_numbers();
    }
    BARRIER(all->barrier, 2);
    if (me == 0) {
        look();
        check(rmdir(folder) == 0, "rmdir");
    }
    BARRIER(all->barrier, 2);
}

int main(void) {
    all = G_MALLOC(sizeof *all);
    all->wrong = 0;
    LOCKINIT(all->names);
    BARINIT(all->barrier, 2);
    /* The same name on all ranks. */
    snprintf(folder, sizeof folder, "/tmp/tutti-further-%ld", (long)getpid());
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("further: %ld wrong\n", all->wrong);
    MAIN_END;
}
