/* What programs do with shared memory besides loading and storing: each call has pages that are not here, and its
 * result is looked at by the other process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define BYTES (20 * 4096)
#define NUMBERS (BYTES / sizeof(long))

struct shared {
    LOCKDEC(names)
    BARDEC(barrier)
    long next;
    long wrong;
    char before[8192];
    char from[BYTES];
    char between[8192];
    char into[BYTES];
    char behind[8192];
    struct msghdr message;
    struct iovec piece;
    char control[64];
};

static struct shared *all;

static void through_write(FILE *file) {
    if (write(fileno(file), all->from, BYTES) != BYTES || pread(fileno(file), all->into, BYTES, 0) != BYTES)
        perror("write");
}

static void through_pwrite(FILE *file) {
    if (pwrite(fileno(file), all->from, BYTES, 10) != BYTES || lseek(fileno(file), 10, SEEK_SET) != 10 ||
        read(fileno(file), all->into, BYTES) != BYTES)
        perror("pwrite");
}

static void through_pieces(FILE *file) {
    struct iovec out[2] = {{all->from, 5000}, {all->from + 5000, BYTES - 5000}};
    struct iovec in[2] = {{all->into, 9000}, {all->into + 9000, BYTES - 9000}};
    if (writev(fileno(file), out, 2) != BYTES || lseek(fileno(file), 0, SEEK_SET) != 0 ||
        readv(fileno(file), in, 2) != BYTES)
        perror("writev");
}

static void through_stream(FILE *file) {
    if (fwrite(all->from, 1, BYTES, file) != BYTES)
        perror("fwrite");
    rewind(file);
    if (fread(all->into, 1, BYTES, file) != BYTES)
        perror("fread");
}

static void through_socket(FILE *file) {
    int ends[2];
    (void)file;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || send(ends[0], all->from, BYTES, 0) != BYTES ||
        recv(ends[1], all->into, BYTES, MSG_WAITALL) != BYTES)
        perror("send");
    close(ends[0]);
    close(ends[1]);
}

static void through_memcpy(FILE *file) {
    (void)file;
    memcpy(all->into, all->from, BYTES);
}

static void through_text(FILE *file) {
    /* Letters without an end, but for the last byte. */
    char last = all->from[BYTES - 1];
    all->from[BYTES - 1] = 0;
    fprintf(file, "%s", all->from);
    fputc(last, file);
    all->from[BYTES - 1] = last;
    rewind(file);
    for (long at = 0; at < BYTES; at += 1000) {
        char line[1001];
        size_t count = fread(line, 1, at + 1000 > BYTES ? BYTES - at : 1000, file);
        snprintf(all->into + at, count, "%.*s", (int)count - 1, line);
        all->into[at + count - 1] = line[count - 1];
    }
}

static void through_getline(FILE *file) {
    char *line = NULL;
    size_t room = 0;
    fwrite(all->from, 1, BYTES, file);
    fputc('\n', file);
    rewind(file);
    if (getline(&line, &room, file) != BYTES + 1)
        perror("getline");
    memcpy(all->into, line, BYTES);
    free(line);
}

static void with_locked_memory(FILE *file) {
    /* The kernel may refuse it (pages that are not here); shared memory stays right. */
    (void)mlock(all->into, BYTES);
    through_memcpy(file);
    (void)munlock(all->into, BYTES);
}

static void with_a_child(FILE *file) {
    pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit(7);
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
        all->wrong++;
    through_memcpy(file);
}

static void with_all_memory_locked(FILE *file) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 && errno != ENOMEM && errno != EPERM)
        perror("mlockall");
    through_memcpy(file);
    munlockall();
}

static void with_descriptors_closed(FILE *file) {
    for (int descriptor = 3; descriptor < 256; descriptor++)
        (void)close(descriptor);
    closefrom(3);
    through_memcpy(file);
}

static void through_datagrams(FILE *file) {
    int ends[2];
    (void)file;
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0)
        perror("socketpair");
    for (long at = 0; at < BYTES; at += 5000) {
        size_t bytes = at + 5000 > BYTES ? BYTES - at : 5000;
        if (sendto(ends[0], all->from + at, bytes, 0, NULL, 0) != (ssize_t)bytes ||
            recvfrom(ends[1], all->into + at, bytes, 0, NULL, NULL) != (ssize_t)bytes)
            perror("sendto");
    }
    close(ends[0]);
    close(ends[1]);
}

static void through_messages(FILE *file) {
    int ends[2];
    struct iovec out[2] = {{all->from, 7000}, {all->from + 7000, BYTES - 7000}};
    struct iovec in[2] = {{all->into, 11000}, {all->into + 11000, BYTES - 11000}};
    struct msghdr sent = {.msg_iov = out, .msg_iovlen = 2}, received = {.msg_iov = in, .msg_iovlen = 2};
    (void)file;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0 || sendmsg(ends[0], &sent, 0) != BYTES ||
        recvmsg(ends[1], &received, 0) != BYTES)
        perror("sendmsg");
    close(ends[0]);
    close(ends[1]);
}

static void through_a_shared_message(FILE *file) {
    int ends[2], passed[1] = {fileno(file)};
    struct cmsghdr *control = (struct cmsghdr *)all->control;
    memset(&all->message, 0, sizeof all->message);
    memset(all->control, 0, sizeof all->control);
    all->piece.iov_base = all->from;
    all->piece.iov_len = BYTES;
    all->message.msg_iov = &all->piece;
    all->message.msg_iovlen = 1;
    all->message.msg_control = all->control;
    all->message.msg_controllen = CMSG_SPACE(sizeof(int));
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), passed, sizeof passed);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0 || sendmsg(ends[0], &all->message, 0) != BYTES)
        perror("sendmsg with a descriptor");
    all->piece.iov_base = all->into;
    memset(all->control, 0, sizeof all->control);
    if (recvmsg(ends[1], &all->message, 0) != BYTES)
        perror("recvmsg with a descriptor");
    memcpy(passed, CMSG_DATA(control), sizeof passed);
    if (all->message.msg_controllen < CMSG_LEN(sizeof(int)) || passed[0] == fileno(file) || close(passed[0]) != 0)
        all->wrong++;
    close(ends[0]);
    close(ends[1]);
}

static void through_pieces_at_places(FILE *file) {
    struct iovec out[2] = {{all->from, 5000}, {all->from + 5000, BYTES - 5000}};
    struct iovec in[2] = {{all->into, 9000}, {all->into + 9000, BYTES - 9000}};
    if (pwritev(fileno(file), out, 2, 30) != BYTES || preadv(fileno(file), in, 2, 30) != BYTES)
        perror("pwritev");
}

static void through_lines(FILE *file) {
    for (long at = 0; at < BYTES; at += 512)
        fprintf(file, "%.512s\n", all->from + at);
    rewind(file);
    for (long at = 0; at < BYTES; at += 512) {
        if (fgets(all->behind, sizeof all->behind, file) == NULL || strlen(all->behind) != 513)
            perror("fgets");
        memcpy(all->into + at, all->behind, 512);
    }
}

static void with_descriptors_moved(FILE *file) {
    /* Numbers that are free; in the place of the library's own none is taken (wrong.c). */
    int taken = dup(fileno(file)), free_one = dup(fileno(file));
    close(free_one);
    if (dup2(taken, free_one) != free_one || dup3(taken, taken, 0) != -1 || errno != EINVAL)
        all->wrong++;
    if (write(free_one, all->from, BYTES) != BYTES || pread(taken, all->into, BYTES, 0) != BYTES)
        perror("dup2");
    close(taken);
    close(free_one);
}

static int compare(const void *one, const void *other) {
    long a = *(const long *)one, b = *(const long *)other;
    return (a > b) - (a < b);
}

static void (*const ways[])(FILE *) = {
    through_write,  through_pwrite,  through_pieces,     through_stream, through_socket,
    through_memcpy, through_text,    through_getline,    with_locked_memory, with_a_child,
    with_all_memory_locked, through_datagrams, through_messages,
    through_a_shared_message, through_pieces_at_places, through_lines, with_descriptors_moved, with_descriptors_closed,
};

static void check(int is_right, const char *what, int which) {
    if (!is_right) {
        printf("calls: %s %d is wrong\n", what, which);
        all->wrong++;
    }
}

static void run(void) {
    long me;
    int count = sizeof ways / sizeof *ways;
    LOCK(all->names);
    me = all->next++;
    UNLOCK(all->names);
    for (int round = 0; round <= count; round++) {
        if (me == 0)
            for (long at = 0; at < BYTES; at++)
                all->from[at] = 'a' + (at * 7 + round * 3 + at / 4096) % 26;
        BARRIER(all->barrier, 2);
        if (me == 1 && round < count) {
            FILE *file = tmpfile();
            ways[round](file);
            fclose(file);
        } else if (me == 1) {
            memcpy(all->into, all->from, BYTES);
            qsort(all->into, NUMBERS, sizeof(long), compare);
        }
        BARRIER(all->barrier, 2);
        if (me == 0 && round < count)
            check(memcmp(all->from, all->into, BYTES) == 0, "way", round);
        else if (me == 0)
            for (long at = 1; at < (long)NUMBERS; at++)
                check(compare(all->into + (at - 1) * sizeof(long), all->into + at * sizeof(long)) <= 0, "number",
                      (int)at);
        BARRIER(all->barrier, 2);
    }
}

int main(void) {
    /* The first descriptor of the program is its own. */
    int descriptor = open("/dev/null", O_RDONLY), is_wrong = close(descriptor) != 0;
    all = G_MALLOC(sizeof *all);
    all->next = 0;
    all->wrong = is_wrong;
    LOCKINIT(all->names);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("calls: %ld wrong\n", all->wrong);
    MAIN_END;
}
