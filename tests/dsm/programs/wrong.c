/* What a program may not do with PARMACS macros; the first argument says which. Rank 0 makes the processes. */
#define _GNU_SOURCE
#include <aio.h>
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <tutti/parmacs.h>

MAIN_ENV

struct shared {
    LOCKDEC(lock)
    LOCKDEC(unmade)
    BARDEC(barrier)
    LOCKDEC(names)
    long next;
    long value;
    long far[64 * 4096];
    void *block;
    pthread_mutex_t mutex;
    pthread_barrier_t meeting;
    sem_t semaphore;
};

static struct shared *all;
static long *alone;
static const char *what;
static long changed_by_one;

static int is(const char *name) {
    return strcmp(what, name) == 0;
}

static void *touch(void *place) {
    *(volatile long *)place = 1;
    return NULL;
}

/* The pages of shared memory that a call is about to take away. */
static void change_mapping(void) {
    void *page = (void *)((uintptr_t)all->far & ~(uintptr_t)4095);
    if (is("munmap"))
        munmap(page, 4096);
    if (is("mprotect"))
        mprotect(page, 4096, PROT_READ);
    if (is("mremap"))
        mremap(page, 4096, 8192, MREMAP_MAYMOVE);
    if (is("fixed"))
        mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void touch_in_child(void) {
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        touch(&all->value);
        _exit(0);
    }
    waitpid(child, &status, 0);
    exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 3);
}

static void run(void) {
    long me;
    LOCK(all->names);
    me = all->next++;
    UNLOCK(all->names);
    if (is("unlock") && me == 0)
        UNLOCK(all->lock);
    if (is("twice") && me == 0) {
        LOCK(all->lock);
        LOCK(all->lock);
    }
    if (is("other")) {
        if (me == 0)
            LOCK(all->lock);
        BARRIER(all->barrier, 2);
        if (me == 1)
            UNLOCK(all->lock);
    }
    if (me == 1)
        change_mapping();
    if (is("mutex") && me == 1)
        pthread_mutex_lock(&all->mutex);
    if (is("meeting") && me == 1)
        pthread_barrier_wait(&all->meeting);
    if (is("semaphore") && me == 1)
        sem_post(&all->semaphore);
    if (is("later") && me == 1) {
        static struct aiocb request;
        request.aio_buf = all->far;
        request.aio_nbytes = 1;
        aio_write(&request);
    }
    if (is("number") && me == 1)
        syscall(SYS_getcpu, all->far, NULL, NULL);
    if (is("futex") && me == 1)
        syscall(SYS_futex, &all->mutex, 0, 1, NULL, NULL, 0);
    if (is("try") && me == 1)
        pthread_rwlock_tryrdlock((pthread_rwlock_t *)(void *)&all->meeting);
    if (is("remove") && me == 1)
        madvise((void *)((uintptr_t)all->far & ~(uintptr_t)4095), 4096, MADV_REMOVE);
    if (is("child") && me == 1)
        touch_in_child();
    if (is("unmade") && me == 0)
        LOCK(all->unmade);
    if (is("count"))
        BARRIER(all->barrier, me == 0 ? 1 + 1 : 1);
    if (is("many") && me == 0)
        BARRIER(all->barrier, 100);
    if (is("none") && me == 0)
        BARRIER(all->barrier, 0);
    if (is("full") && me == 0)
        for (;;)
            all->block = G_MALLOC(1 << 20);
    if (is("huge") && me == 0)
        all->block = G_MALLOC((size_t)-8);
    tutti_pages pages = {(void *)0x1000, 4096};
    if (is("operation") && me == 0)
        G_PAGES(9, &pages, 1, 0);
    if (is("attributes") && me == 0)
        G_PAGES(TUTTI_PAGES_ALLOCATE, &pages, 1, 8);
    if (is("private") && me == 0)
        G_PAGES(TUTTI_PAGES_INVALIDATE, &pages, 1, 0);
    if (is("race"))
        all->value = me + 1;
    if (is("spin")) {
        /* Two places that have different homes: one of them is away. Both are here, and zero, when one process stores. */
        BARRIER(all->barrier, 2);
        for (int place = 1; place < 3; place++) {
            volatile long *flag = &all->far[place * 8192];
            if (me == 0) {
                *flag = 1;
                LOCK(all->lock);
                UNLOCK(all->lock);
            } else {
                while (*flag == 0)
                    continue;
            }
        }
    }
    if (is("stack") && me == 1)
        for (size_t i = 0; i < sizeof all->far / sizeof(long); i += 8192)
            all->far[i] = (long)(uintptr_t)&me;
    if (is("malloc") && me == 0)
        all->block = malloc(24);
    if (is("variable") && me == 1)
        changed_by_one = 1;
    if (is("offset") && me == 1)
        ((struct shared *)all->block)->value = 1;
    if (is("alone")) {
        if (me == 0)
            alone = &all->value;
        BARRIER(all->barrier, 2);
        *(volatile long *)alone = 1;
    }
    if (is("inside") && me == 1)
        CREATE(run, 2);
    if (is("thread") && me == 1) {
        pthread_t thread;
        pthread_create(&thread, NULL, touch, &all->value);
        pthread_join(thread, NULL);
    }
    if (is("beyond") && me == 1)
        *((volatile char *)all + (12 << 20)) = 1;
    if (is("library")) {
        for (size_t i = 0; me == 0 && i < sizeof all->far / sizeof(long); i += 512)
            all->far[i] = 1;
        BARRIER(all->barrier, 2);
        for (size_t i = 0; me == 1 && i < sizeof all->far / sizeof(long); i += 512)
            MPI_Send(&all->far[i], 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    if (is("dup2") && me == 1)
        for (int number = 3; number < 256; number++)
            dup2(STDERR_FILENO, number);
    if (is("exit") && me == 1)
        exit(0);
    BARRIER(all->barrier, 2);
}

int main(int argc, char **argv) {
    int rank = 0;
    what = argc > 1 ? argv[1] : "";
    all = G_MALLOC(sizeof *all);
    all->next = 0;
    LOCKINIT(all->lock);
    LOCKINIT(all->names);
    BARINIT(all->barrier, 2);
    if (is("free")) {
        char *block = G_MALLOC(100);
        G_FREE(block);
        G_FREE(block);
    }
    if (is("heap")) {
        void *volatile block = G_MALLOC(100);
        free(block);
        free(block);
    }
    if (is("longer")) {
        void *volatile block = G_MALLOC(100);
        block = realloc(block, 200);
    }
    if (is("early"))
        touch(alone);
    if (is("differs") || is("counts"))
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is("differs") && rank == 1)
        time(NULL);
    CREATE(run, is("create") ? 9 : is("counts") && rank == 1 ? 1 : 2);
    if (!is("leave")) {
        WAIT_FOR_END(2);
        printf("wrong: nothing was said%s\n", changed_by_one == 2 ? " twice" : "");
    }
    MAIN_END;
}
