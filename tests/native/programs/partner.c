/* tutti_wait_until: the values, wrong arguments, partners that sleep or are far behind, words that nobody announces. */
#define _GNU_SOURCE
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <tutti.h>

static int failures;
#define CHECK(holds)                                                                             \
    do {                                                                                         \
        if (!(holds)) {                                                                          \
            fprintf(stderr, "PE %d, line %d: expected %s\n", shmem_my_pe(), __LINE__, #holds); \
            failures++;                                                                          \
        }                                                                                        \
    } while (0)

static void nap(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static int64_t own;

static void *store(void *unused)
{
    (void)unused;
    nap(30);
    __atomic_store_n(&own, 7, __ATOMIC_RELEASE);
    return NULL;
}

int main(void)
{
    static int64_t before = 1;
    CHECK(tutti_wait_until(&before, TUTTI_EQ, 2, TUTTI_ANY) == TUTTI_ERR_RUNNING);
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n;
    int64_t *flag = shmem_calloc(2, sizeof *flag);
    shmem_barrier_all();
    CHECK(tutti_wait_until(flag, 0, 0, TUTTI_ANY) == TUTTI_ERR_ARG);
    CHECK(tutti_wait_until(flag, TUTTI_EQ, 1, n) == TUTTI_ERR_ARG);
    CHECK(tutti_wait_until((int64_t *)((char *)flag + 1), TUTTI_EQ, 0, TUTTI_ANY) == TUTTI_ERR_ARG);
    CHECK(tutti_wait_until(flag, TUTTI_LE, 0, TUTTI_ANY) == TUTTI_OK);
    shmem_barrier_all(); /* before the first store to a flag */

    /* Round and round, each hop wakes a PE that waits. */
    for (int64_t round = 1; round <= 200; round++) {
        if (me == 0)
            shmem_int64_p(flag, round, right);
        CHECK(tutti_wait_until(flag, TUTTI_GE, round, (me + n - 1) % n) == TUTTI_OK);
        if (me != 0)
            shmem_int64_p(flag, round, right);
    }
    shmem_barrier_all();

    /* PE 0 is far behind, and says so: nobody spins for it. */
    CHECK(tutti_progress(me == 0 ? 0 : 100, 10) == TUTTI_OK);
    shmem_barrier_all();
    if (me == 0) {
        nap(300);
        for (int pe = 1; pe < n; pe++)
            shmem_int64_p(flag + 1, 1, pe);
    } else {
        long count = switches();
        CHECK(tutti_wait_until(flag + 1, TUTTI_EQ, 1, 0) == TUTTI_OK);
        CHECK(switches() - count < 60);
    }

    /* A word of the process that nobody announces. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, store, NULL) == 0);
    CHECK(tutti_wait_until(&own, TUTTI_GT, 6, TUTTI_ANY) == TUTTI_OK);
    pthread_join(thread, NULL);

    int *all = shmem_calloc((size_t)n, sizeof *all);
    shmem_int_p(&all[me], failures, 0);
    shmem_barrier_all();
    int sum = 0;
    for (int pe = 0; pe < n; pe++)
        sum += all[pe];
    if (me == 0 && sum == 0)
        printf("partner: ok\n");
    shmem_finalize();
    return failures != 0;
}
