/* Operations on memory of this node from a thread that the kernel kills at its first system call. */
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <tutti.h>
#include <unistd.h>

enum { ROUNDS = 1000 };

static tutti_region there;
static const char *volatile wrong = "the thread was ended by a system call";

#define CHECK(holds)    \
    if (!(holds)) {     \
        wrong = #holds; \
        goto end;       \
    }

static void *calls(void *nothing)
{
    (void)nothing;
    int64_t found, word = 7;
    /* The first one finds and maps the memory, and what a thread needs. */
    CHECK(tutti_fetch_add(&there, 16, 1, &found, TUTTI_WAIT) == TUTTI_OK);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        wrong = "no strict mode";
        goto end;
    }
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(tutti_fetch_add(&there, 0, 1, &found, TUTTI_WAIT) == TUTTI_OK && found == round);
        CHECK(tutti_write(&there, 8, &word, sizeof word, TUTTI_WAIT) == TUTTI_OK);
        word = 0;
        CHECK(tutti_read(&there, 8, &word, sizeof word, TUTTI_WAIT) == TUTTI_OK && word == 7);
    }
    wrong = NULL;
end:
    syscall(SYS_exit, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    int me, level;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    tutti_region own;
    void *memory = tutti_alloc(4096);
    if (tutti_open(memory, 4096, TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC, &own) != TUTTI_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    there = own;
    MPI_Bcast(&there, sizeof there, MPI_BYTE, 1, MPI_COMM_WORLD);
    if (me == 0) {
        if (pthread_create(&thread, NULL, calls, NULL) != 0 || pthread_join(thread, NULL) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        printf("light calls: %s\n", wrong ? wrong : "ok");
        fflush(stdout);
        /* A thread that was killed has kept the library's lock. */
        if (wrong)
            _exit(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
