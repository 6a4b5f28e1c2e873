/* Each thread of a rank, by the kernel: its policy, its nice value, and the length of its time slices, which
   are 0 where threads have none of their own. "slices" at the end: all of them are short. */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE_NS = 100000 };

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

static struct attributes of_thread(int thread)
{
    struct attributes found;
    if (syscall(SYS_sched_getattr, thread, &found, sizeof found, 0)) {
        perror("sched_getattr");
        exit(1);
    }
    return found;
}

int main(int argc, char **argv)
{
    int threads = 0, expected = 1;
    struct attributes before = of_thread(0);
    MPI_Init(&argc, &argv);
    if (argc > 1)
        expected = atoi(argv[1]);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        struct attributes now = of_thread(atoi(task->d_name));
        int is_right = before.runtime_ns == 0 || now.runtime_ns == SLICE_NS;
        if (!is_right || now.policy != before.policy || now.nice != before.nice)
            printf("thread %s: policy %u, nice %d, %lu ns; %u, %d, %lu ns before MPI_Init\n", task->d_name,
                   now.policy, now.nice, (unsigned long)now.runtime_ns, before.policy, before.nice,
                   (unsigned long)before.runtime_ns);
        threads += is_right;
    }
    closedir(tasks);
    if (threads >= expected)
        printf("nice %d: slices\n", before.nice);
    MPI_Finalize();
    return 0;
}
