// seize STARTER: a user's tracer is with its own process while that becomes the starter. What it can do at the
// first stop behind exec, before an instruction of the new program: one line for each way to what root's daemon
// will give it.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

// Its own page of data is none of the new program's, whatever that has there.
static char there;

static void tell(const char *way, long result) {
    printf("%s: %s\n", way, result >= 0 ? "possible" : errno == EPERM || errno == EACCES || errno == EIO || errno == EFAULT ? "refused" : strerror(errno));
    fflush(stdout);
}

int main(int argc, char **argv) {
    (void)argc;
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(argv[1], argv[1], "0", (char *)0);
        _exit(9);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 2;
    int process = syscall(SYS_pidfd_open, child, 0);
    tell("descriptor", syscall(SYS_pidfd_getfd, process, 0, 0));
    char path[64], byte;
    snprintf(path, sizeof path, "/proc/%d/fd/0", child);
    tell("link", readlink(path, &byte, 1));
    struct iovec own = {&byte, 1}, far = {&there, 1};
    tell("memory", process_vm_readv(child, &own, 1, &far, 1, 0));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return 0;
}
