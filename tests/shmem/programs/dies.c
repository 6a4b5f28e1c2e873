/* PE 0 is killed by the last PE while the others wait for it, or work on its memory, until the job is ended.
 * Argument: what they are at.
 *
 *   lock      PE 0 has a lock and calls nothing; the others wait for it
 *   ask       the last PE has a lock; the others, and PE 0, wait for it
 *   barrier   PE 0 and the others are in a barrier; the last one is not
 *   word      PE 0 calls nothing; the others wait for a word that it is to store
 *   atomics   all change the heap of all
 *   statics   all put static variables of all, and get them */
#define _DEFAULT_SOURCE
#include "../../windows/c/killer.h"
#include "check.h"

enum { COUNT = 20000 };

static int pids[64];
static long counter, words[COUNT], word;

int main(int argc, char **argv)
{
    shmem_init();
    const char *what = argv[argc - 1];
    int me = shmem_my_pe(), n = shmem_n_pes(), is_killer = me == n - 1, pid = getpid();
    long *heap = shmem_calloc(COUNT, sizeof *heap), *lock = shmem_calloc(1, sizeof *lock);
    int *all = shmem_calloc((size_t)n, sizeof *all);
    for (int pe = 0; pe < n; pe++)
        shmem_int_p(&all[me], pid, pe);
    shmem_barrier_all();
    memcpy(pids, all, (size_t)n * sizeof *all);
    if (me == 0)
        printf("job %s\n", getenv("TUTTI_JOB")), fflush(stdout);
    if (me == (strcmp(what, "lock") == 0 ? 0 : n - 1))
        shmem_set_lock(lock);
    shmem_barrier_all();
    if (strcmp(what, "lock") == 0 || strcmp(what, "word") == 0) {
        if (is_killer)
            kill_when_asleep(pids[0], pids + 1, n - 2);
        for (volatile unsigned spins = 0; me == 0;)
            spins++;
        if (strcmp(what, "lock") == 0)
            shmem_set_lock(lock);
        else
            shmem_long_wait_until(heap, SHMEM_CMP_NE, 0);
    } else if (strcmp(what, "ask") == 0 || strcmp(what, "barrier") == 0) {
        if (is_killer)
            kill_when_asleep(pids[0], pids, n - 1);
        if (strcmp(what, "ask") == 0)
            shmem_set_lock(lock);
        else
            shmem_barrier_all();
    } else {
        for (int i = 0;; i++) {
            int target = i % n;
            if (is_killer && i == 1000)
                kill(pids[0], SIGKILL);
            if (strcmp(what, "atomics") == 0) {
                shmem_long_atomic_fetch_add(heap, 1, target);
                shmem_long_atomic_inc(&heap[i % COUNT], target);
            } else {
                shmem_long_put(words, heap, COUNT, target);
                counter = shmem_long_g(&word, target);
            }
        }
    }
    fprintf(stderr, "PE %d: the job goes on without PE 0\n", me);
    shmem_global_exit(1);
    return 1;
}
