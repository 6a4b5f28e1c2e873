/* The PARMACS macros of lu.c.in, radix.c.in, sor.c and queue.c on threads of one process, in the place of the installed
 * <tutti/parmacs.h>: the same source is a pthread program then, to compare.
 *
 *     cc -O2 -pthread -I examples/shared/threads -o sor examples/shared/sor.c
 *     cc -O2 -pthread -I examples/shared/threads -x c -include tutti/parmacs.h -o lu examples/shared/lu.c.in
 *
 * Variables of C are shared here. The four programs change none after CREATE. */
#ifndef TUTTI_THREADS_PARMACS_H
#define TUTTI_THREADS_PARMACS_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

/* A pause: a flag that stays set. */
typedef struct tutti_threads_pause {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int is_set;
} tutti_threads_pause;

enum { TUTTI_THREADS_MAX = 256 };
static pthread_t tutti_threads[TUTTI_THREADS_MAX];
static int tutti_threads_count;

static void *tutti_threads_begin(void *function) {
    /* A pointer to a function goes through the argument of a thread by its bytes. */
    (*(void (**)(void))function)();
    return NULL;
}

static inline void tutti_threads_create(void (*function)(void), long count) {
    static void (*kept)(void);
    kept = function;
    if (count < 1 || count > TUTTI_THREADS_MAX) {
        fprintf(stderr, "CREATE of %ld threads: from 1 to %d can be made\n", count, TUTTI_THREADS_MAX);
        exit(2);
    }
    for (tutti_threads_count = 0; tutti_threads_count < count - 1; tutti_threads_count++)
        if (pthread_create(&tutti_threads[tutti_threads_count], NULL, tutti_threads_begin, &kept) != 0) {
            fprintf(stderr, "CREATE: thread %d cannot be made\n", tutti_threads_count);
            exit(1);
        }
    function();
}

static inline void tutti_threads_wait(void) {
    while (tutti_threads_count > 0)
        pthread_join(tutti_threads[--tutti_threads_count], NULL);
}

static inline void tutti_threads_set(tutti_threads_pause *pause, int is_set) {
    pthread_mutex_lock(&pause->mutex);
    pause->is_set = is_set;
    pthread_cond_broadcast(&pause->changed);
    pthread_mutex_unlock(&pause->mutex);
}

static inline void tutti_threads_await(tutti_threads_pause *pause) {
    pthread_mutex_lock(&pause->mutex);
    while (!pause->is_set)
        pthread_cond_wait(&pause->changed, &pause->mutex);
    pthread_mutex_unlock(&pause->mutex);
}

static inline unsigned long tutti_threads_clock(void) {
    struct timeval now;
    gettimeofday(&now, NULL);
    return (unsigned long)now.tv_sec * 1000000ul + (unsigned long)now.tv_usec;
}

#define MAIN_ENV
#define MAIN_INITENV(...)
#define MAIN_END { exit(0); }

#define CREATE(function, count) { tutti_threads_create(function, count); }
#define WAIT_FOR_END(count) { tutti_threads_wait(); }

#define G_MALLOC(bytes) calloc(1, bytes);
#define G_FREE(address) { free(address); }

#define LOCKDEC(lock) pthread_mutex_t lock;
#define LOCKINIT(lock) { pthread_mutex_init(&(lock), NULL); }
#define LOCK(lock) { pthread_mutex_lock(&(lock)); }
#define UNLOCK(lock) { pthread_mutex_unlock(&(lock)); }

#define BARDEC(barrier) pthread_barrier_t barrier;
#define BARINIT(barrier, count) { pthread_barrier_init(&(barrier), NULL, (unsigned)(count)); }
#define BARRIER(barrier, count) { pthread_barrier_wait(&(barrier)); }

#define PAUSEDEC(pause) tutti_threads_pause pause;
#define PAUSEINIT(pause) \
    { \
        pthread_mutex_init(&(pause).mutex, NULL); \
        pthread_cond_init(&(pause).changed, NULL); \
        (pause).is_set = 0; \
    }
#define SETPAUSE(pause) { tutti_threads_set(&(pause), 1); }
#define CLEARPAUSE(pause) { tutti_threads_set(&(pause), 0); }
#define WAITPAUSE(pause) { tutti_threads_await(&(pause)); }

#define CLOCK(time) { (time) = tutti_threads_clock(); }

#endif
