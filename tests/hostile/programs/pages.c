/* What a user may have in place of a starter: files that are named as a starter's pages.
 * pages lease N: N of them with a lease, for which whoever opens one waits.
 * pages links N: N descriptors of a file at the end of a path that is as long as can be.
 * pages taken N: one whose memory it takes away N thousand times a second, while its child works.
 * It has a starter's name. Prints the pid of its child, and stays until its stdin ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH 1900

static void check(int is_right, const char *what) {
    if (!is_right) {
        perror(what);
        exit(1);
    }
}

static int page(void) {
    int made = memfd_create("tutti-turns", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    check(made >= 0 && !ftruncate(made, 4096), "memfd_create");
    check(!fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), "F_ADD_SEALS");
    return made;
}

static void lease(void) {
    char path[64];
    int made = page(), kept;
    snprintf(path, sizeof path, "/proc/self/fd/%d", made);
    kept = open(path, O_RDWR);
    check(kept >= 0, path);
    close(made);
    check(!fcntl(kept, F_SETLEASE, F_WRLCK), "F_SETLEASE");
}

/* A file that is gone, below folders that are gone: its path is as long as before. */
static int deep(void) {
    int file;
    for (int at = 0; at < DEPTH; at++)
        check(!mkdir("d", 0700) && !chdir("d"), "mkdir");
    file = open("f", O_RDWR | O_CREAT, 0600);
    check(file >= 0 && !unlink("f"), "f");
    for (int at = 0; at < DEPTH; at++)
        check(!chdir("..") && !rmdir("d"), "rmdir");
    return file;
}

int main(int argc, char **argv) {
    int count = argc == 3 ? atoi(argv[2]) : 0, taken = -1;
    struct rlimit limit;
    pid_t child;
    char byte;
    check(count > 0, "pages lease|links|taken N");
    check(!prctl(PR_SET_NAME, "tutti-starter"), "PR_SET_NAME");
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    signal(SIGIO, SIG_IGN);
    if (!strcmp(argv[1], "lease")) {
        while (count--)
            lease();
    } else if (!strcmp(argv[1], "taken")) {
        taken = page();
    } else {
        int file = deep();
        while (--count)
            check(dup(file) >= 0, "dup");
    }
    child = fork();
    if (!child) {
        /* Ends with its parent's pipe. */
        struct pollfd end = {.fd = 0};
        while (taken >= 0 && poll(&end, 1, 0) == 0)
            ;
        while (taken < 0 && read(0, &byte, 1) > 0)
            ;
        _exit(0);
    }
    printf("%d\n", (int)child);
    fflush(stdout);
    if (taken >= 0) {
        struct pollfd end = {.fd = 0};
        while (poll(&end, 1, 1) == 0)
            for (int at = 0; at < count; at++)
                check(!fallocate(taken, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), "fallocate");
    }
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
