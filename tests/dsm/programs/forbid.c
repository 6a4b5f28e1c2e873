/* Runs a program that the system refuses userfaultfd, as containers do: the call, and the device of it. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(offsetof(struct seccomp_data, member)))
#define SKIP_UNLESS(value, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (count))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))
/* USERFAULTFD_IOC_NEW */
#define NEW 0xaa00

int main(int argc, char **argv) {
    struct sock_filter filter[] = {
        LOAD(nr),
        SKIP_UNLESS(SYS_userfaultfd, 1),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
        SKIP_UNLESS(SYS_ioctl, 3),
        LOAD(args[1]),
        SKIP_UNLESS(NEW, 1),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("forbid");
        return 1;
    }
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
