/* A program in strict ISO C, where signal(2) is another function of the C library: its handler of SIGSEGV and SIGBUS gets
 * its own faults, once, and shared memory works on. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define LONGS (64 * 512)

struct shared {
    BARDEC(barrier)
    long values[2 * LONGS];
};

static struct shared *all;
static jmp_buf back;
static volatile int *volatile nowhere = (volatile int *)8;
static volatile int handled;

static void handle(int signal) {
    (void)signal;
    handled++;
    longjmp(back, 1);
}

static void run(void) {
    long me, sum = 0;
    GET_PID(me)
    for (int which = 0; which < 2; which++)
        if (signal(which == 0 ? SIGSEGV : SIGBUS, handle) == SIG_ERR)
            printf("strict: signal is refused\n");
    for (long i = 0; i < LONGS; i++)
        all->values[2 * i + me] = i;
    BARRIER(all->barrier, 2);
    for (long i = 0; i < 2 * LONGS; i++)
        sum += all->values[i];
    if (sum != (long)LONGS * (LONGS - 1))
        printf("strict: the sum is %ld\n", sum);
    if (setjmp(back) == 0) {
        *nowhere = 1;
        printf("strict: a store to nowhere went on\n");
    }
    /* The handler was called once, and is not set any more; faults of shared memory go on. */
    if (handled != 1 || signal(SIGSEGV, SIG_DFL) != SIG_DFL)
        printf("strict: the handler stays\n");
    BARRIER(all->barrier, 2);
    all->values[me] = 7;
    BARRIER(all->barrier, 2);
    if (all->values[0] + all->values[1] != 14)
        printf("strict: values are lost\n");
}

int main(void) {
    all = G_MALLOC(sizeof *all);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("strict: ok\n");
    MAIN_END;
}
