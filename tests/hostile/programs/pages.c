/* What a user may have in place of a starter: files that are named as a starter's pages. pages lease N: N of
 * them with a lease, for which whoever opens one waits. pages links N: N descriptors of a file at the end of a
 * path that is as long as can be. Prints the pid of its child, and stays until its stdin ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static void lease(void) {
    char path[64];
    int made = memfd_create("tutti-turns", MFD_CLOEXEC | MFD_ALLOW_SEALING), kept;
    check(made >= 0 && !ftruncate(made, 4096), "memfd_create");
    check(!fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), "F_ADD_SEALS");
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
    int count = argc == 3 ? atoi(argv[2]) : 0;
    struct rlimit limit;
    pid_t child;
    char byte;
    check(count > 0, "pages lease|links N");
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    signal(SIGIO, SIG_IGN);
    if (!strcmp(argv[1], "lease")) {
        while (count--)
            lease();
    } else {
        int file = deep();
        while (--count)
            check(dup(file) >= 0, "dup");
    }
    child = fork();
    if (!child) {
        /* Ends with its parent's pipe. */
        while (read(0, &byte, 1) > 0)
            ;
        _exit(0);
    }
    printf("%d\n", (int)child);
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
