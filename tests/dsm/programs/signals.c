/* A program's own handlers of SIGSEGV and SIGBUS keep working, and one that blocks all signals may touch shared memory. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define LONGS (64 * 4096 / sizeof(long))

struct shared {
    BARDEC(barrier)
    LOCKDEC(lock)
    long next;
    long values[2 * LONGS];
};

static struct shared *all;
static sigjmp_buf back;
static volatile int *volatile nowhere = (volatile int *)8;
/* Memory of a file that is empty. */
static volatile int *volatile behind;

static void handle(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static void run(void) {
    long me, sum = 0;
    sigset_t everything;
    LOCK(all->lock);
    me = all->next++;
    UNLOCK(all->lock);
    sigfillset(&everything);
    sigprocmask(SIG_BLOCK, &everything, NULL);
    for (size_t i = 0; i < LONGS; i++)
        all->values[2 * i + (size_t)me] = (long)i;
    BARRIER(all->barrier, 2);
    for (size_t i = 0; i < 2 * LONGS; i++)
        sum += all->values[i];
    sigprocmask(SIG_UNBLOCK, &everything, NULL);
    if (sum != (long)(LONGS * (LONGS - 1)))
        printf("signals: the sum is %ld\n", sum);
    if (sigsetjmp(back, 1) == 0) {
        *nowhere = 1;
        printf("signals: a store to nowhere went on\n");
    }
    if (sigsetjmp(back, 1) == 0) {
        *behind = 1;
        printf("signals: a store behind the end of a file went on\n");
    }
    BARRIER(all->barrier, 2);
}

int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    behind = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("empty", 0), 0);
    all = G_MALLOC(sizeof *all);
    all->next = 0;
    LOCKINIT(all->lock);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("signals: ok\n");
    MAIN_END;
}
