/* Waits that sleep: every kind of change wakes the PE that waits for it, and who sleeps uses no processor. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/resource.h>
#include <time.h>

/* Longer than anything that spins, and much shorter than a sleep that nobody ends. */
#define NAP_MS 60
#define LOST_S 8

static long *word;
static uint64_t *signal_word;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void nap(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* The last PE waits until PE 0, which lets it fall asleep first, has done STORE. */
#define WAKES(STORE, WAIT)                                                                   \
    do {                                                                                     \
        int to = shmem_n_pes() - 1;                                                          \
        *word = 0;                                                                           \
        *signal_word = 0;                                                                    \
        shmem_barrier_all();                                                                 \
        if (shmem_my_pe() == 0) {                                                            \
            nap(NAP_MS);                                                                     \
            STORE;                                                                           \
        }                                                                                    \
        if (shmem_my_pe() == to) {                                                           \
            double begin = now();                                                            \
            WAIT;                                                                            \
            CHECK(now() - begin < LOST_S);                                                   \
        }                                                                                    \
        shmem_barrier_all();                                                                 \
    } while (0)

#define AWAIT shmem_long_wait_until(word, SHMEM_CMP_NE, 0)
#define AWAIT_SIGNAL shmem_signal_wait_until(signal_word, SHMEM_CMP_EQ, 5)

int main(void)
{
    static long in_program;
    long data[4] = {1, 2, 3, 4}, fetched;
    shmem_init();
    word = shmem_calloc(4096, sizeof *word);
    signal_word = shmem_calloc(1, sizeof *signal_word);
    long *lock = shmem_calloc(1, sizeof *lock);
    static long many[4096] = {1};

    WAKES(shmem_long_p(word, 1, to), AWAIT);
    WAKES(shmem_long_put(word, data, 1, to), AWAIT);
    WAKES(shmem_long_put(word, many, 4096, to), AWAIT);
    WAKES(shmem_long_put_nbi(word, data, 1, to), AWAIT);
    WAKES(shmem_putmem(word, data, sizeof *data, to), AWAIT);
    WAKES(shmem_long_iput(word, data, 2, 2, 2, to), AWAIT);
    WAKES(shmem_long_atomic_set(word, 1, to), AWAIT);
    WAKES(shmem_long_atomic_inc(word, to), AWAIT);
    WAKES(shmem_long_atomic_add(word, 3, to), AWAIT);
    WAKES(fetched = shmem_long_atomic_fetch_add(word, 3, to); CHECK(fetched == 0), AWAIT);
    WAKES(fetched = shmem_long_atomic_swap(word, 3, to); CHECK(fetched == 0), AWAIT);
    WAKES(fetched = shmem_long_atomic_compare_swap(word, 0, 3, to); CHECK(fetched == 0), AWAIT);
    WAKES(shmem_uint64_atomic_or((uint64_t *)word, 1, to), AWAIT);
    WAKES(shmem_uint64_atomic_xor((uint64_t *)word, 1, to), AWAIT);
    WAKES(shmem_long_put_signal(word, data, 4, signal_word, 5, SHMEM_SIGNAL_SET, to), AWAIT_SIGNAL);
    WAKES(shmem_long_put_signal_nbi(word, data, 4, signal_word, 5, SHMEM_SIGNAL_ADD, to), AWAIT_SIGNAL);
    WAKES(shmem_long_p(&in_program, 1, to), shmem_long_wait_until(&in_program, SHMEM_CMP_EQ, 1));
    WAKES(shmem_long_p(word + 7, 1, to), shmem_long_wait_until_any(word, 8, NULL, SHMEM_CMP_NE, 0));

    /* A lock is handed to a PE that sleeps for it. */
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        shmem_set_lock(lock);
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        nap(NAP_MS);
    double begin = now();
    if (shmem_my_pe() != 0)
        shmem_set_lock(lock);
    shmem_clear_lock(lock);
    CHECK(now() - begin < LOST_S);
    shmem_barrier_all();

    /* Who waits long sleeps: a look at every millisecond would leave the processor 500 times. */
    *word = 0;
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        nap(500);
        for (int pe = 1; pe < shmem_n_pes(); pe++)
            shmem_long_p(word, 1, pe);
    } else {
        long before = switches();
        AWAIT;
        CHECK(switches() - before < 100);
    }
    shmem_barrier_all();

    /* From here on PEs may store without a call, and waits look from time to time. */
    *word = 0;
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        nap(NAP_MS);
        volatile long *theirs = shmem_ptr(word, shmem_n_pes() - 1);
        CHECK((theirs != NULL) == is_mapped(shmem_n_pes() - 1));
        if (theirs)
            *theirs = 1;
        else
            shmem_long_p(word, 1, shmem_n_pes() - 1);
    }
    if (shmem_my_pe() == shmem_n_pes() - 1)
        AWAIT;
    return finish("sleepers");
}
