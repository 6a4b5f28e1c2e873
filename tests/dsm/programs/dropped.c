/* Shared memory whose entries the kernel drops all the time, as it may when it needs memory; a thread that touches
 * none of it makes it do so. Loads, stores and calls of the system stay right. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <tutti/parmacs.h>
#include <unistd.h>

MAIN_ENV

enum { PAGES = 32, LONGS = PAGES * 512, ROUNDS = 6 };

struct shared {
    BARDEC(barrier)
    LOCKDEC(lock)
    long next, wrong;
    long before[512];
    long values[2][LONGS];
};

static struct shared *all;
static atomic_int is_over;
static char *first;

static void *drop(void *nothing) {
    while (!is_over)
        madvise(first, sizeof all->values, MADV_DONTNEED);
    return nothing;
}

static long value(long me, long round, long i) {
    return (me + 1) * 1000003 + round * 1009 + i;
}

static void run(void) {
    long me, wrong = 0;
    int pipe_of[2];
    pthread_t thread;
    static long copy[LONGS];
    FILE *file = tmpfile();
    LOCK(all->lock);
    me = all->next++;
    UNLOCK(all->lock);
    wrong += pipe(pipe_of) != 0 || file == NULL;
    first = (char *)(((size_t)all->values + 4095) & ~(size_t)4095);
    pthread_create(&thread, NULL, drop, NULL);
    for (long round = 0; round < ROUNDS; round++) {
        long *own = all->values[me], *other = all->values[1 - me];
        /* Of the own half the even ones by stores, then the odd ones by calls. */
        for (long i = 0; i < LONGS; i += 2)
            own[i] = value(me, round, i);
        for (long i = 1; i < LONGS; i += 2) {
            long one = value(me, round, i);
            if (i % 512 == 1) {
                struct iovec into = {&own[i], sizeof one};
                wrong += write(pipe_of[1], &one, sizeof one) != sizeof one;
                wrong += (i % 1024 == 1 ? read(pipe_of[0], &own[i], sizeof one) : readv(pipe_of[0], &into, 1)) != sizeof one;
            } else {
                own[i] = one;
            }
        }
        BARRIER(all->barrier, 2);
        for (long i = 0; i < LONGS; i++)
            wrong += other[i] != value(1 - me, round, i);
        rewind(file);
        wrong += fwrite(other, sizeof *other, LONGS, file) != LONGS || fflush(file) != 0;
        wrong += pread(fileno(file), copy, sizeof copy, 0) != sizeof copy;
        for (long i = 0; i < LONGS; i++)
            wrong += copy[i] != value(1 - me, round, i);
        for (long i = 0; i < LONGS; i += 512) {
            struct iovec from[2] = {{&other[i], 8}, {&other[i + 1], 8}};
            long found[2] = {0, 0};
            wrong += writev(pipe_of[1], from, 2) != 16 || read(pipe_of[0], found, 16) != 16;
            wrong += found[0] != value(1 - me, round, i) || found[1] != value(1 - me, round, i + 1);
        }
        BARRIER(all->barrier, 2);
    }
    is_over = 1;
    pthread_join(thread, NULL);
    LOCK(all->lock);
    all->wrong += wrong;
    UNLOCK(all->lock);
}

int main(void) {
    all = G_MALLOC(sizeof *all);
    all->next = all->wrong = 0;
    LOCKINIT(all->lock);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("dropped: %ld wrong\n", all->wrong);
    MAIN_END;
}
