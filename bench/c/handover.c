/*
 * A lock of shared memory that goes from one rank of a node to another, beside a lock whose waiters sleep in a futex:
 * parts of both alternate in one run.
 *
 *   handover [--budget-ms 300]
 *
 * Two ranks pass a baton. Who has it holds a lock that the other waits for; before it gives that one back it takes the
 * one by which it will get the baton again from the other's hands. So each lock that is waited for is handed over, and
 * beside that each rank takes and gives back one that is free.
 */
#include "bench.h"
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <tutti/parmacs.h>
#include <unistd.h>

MAIN_ENV

enum { LOCKS = 4, PASSES = 200, WARM_UP = 2 };
/* A lock of a word: free, held, held while another one waits. */
enum { FREE, HELD, AWAITED };

/* Words of different lines. */
struct word {
    _Alignas(128) atomic_uint value;
};

static struct shared {
    struct word words[LOCKS];
    ALOCKDEC(locks, LOCKS)
    BARDEC(barrier)
    long is_over;
} *all;
static double budget_ms;

/* A way to take locks and to give them back. */
struct way {
    void (*take)(long lock);
    void (*give)(long lock);
};

static void take_shared(long lock) {
    ALOCK(all->locks, lock)
}

static void give_shared(long lock) {
    AULOCK(all->locks, lock)
}

static void take_word(long lock) {
    atomic_uint *word = &all->words[lock].value;
    unsigned found = FREE;
    if (atomic_compare_exchange_strong(word, &found, HELD))
        return;
    while (atomic_exchange(word, AWAITED) != FREE)
        syscall(SYS_futex, word, FUTEX_WAIT, AWAITED, NULL, NULL, 0);
}

static void give_word(long lock) {
    atomic_uint *word = &all->words[lock].value;
    if (atomic_exchange(word, FREE) == AWAITED)
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static const struct way SHARED = {take_shared, give_shared}, WORD = {take_word, give_word};

/* So many passes of each rank; nanoseconds of one. */
static double measured(const struct way *way, long me) {
    long held = me;
    way->take(me);
    BARRIER(all->barrier, 2)
    double start = now_ns();
    if (me == 1) {
        way->take(0);
        way->give(0);
    }
    for (int i = 0; i < PASSES; i++) {
        way->take((held + 2) % LOCKS);
        way->give(held % LOCKS);
        /* The last baton stays with rank 0. */
        if (me == 0 || i < PASSES - 1) {
            way->take((held + 1) % LOCKS);
            way->give((held + 1) % LOCKS);
        }
        held += 2;
    }
    double took = now_ns() - start;
    way->give(held % LOCKS);
    BARRIER(all->barrier, 2)
    return took / (2 * PASSES);
}

static void run(void) {
    long me;
    struct samples locks = samples_new(), futex = samples_new();
    double start = now_ns();
    GET_PID(me)
    for (int part = 0;; part++) {
        double one = measured(&SHARED, me), other = measured(&WORD, me);
        if (part >= WARM_UP) {
            samples_add(&locks, one);
            samples_add(&futex, other);
        }
        if (me == 0)
            all->is_over = locks.count >= 5 && now_ns() - start > budget_ms * 1e6;
        BARRIER(all->barrier, 2)
        if (all->is_over)
            break;
        BARRIER(all->barrier, 2)
    }
    if (me == 0) {
        double by_lock = samples_quantile(&locks, 0.5), by_word = samples_quantile(&futex, 0.5);
        printf("handover median_ns=%.1f p99_ns=%.1f futex_ns=%.1f times=%.3f n=%zu\n", by_lock, samples_quantile(&locks, 0.99),
               by_word, by_lock / by_word, locks.count);
    }
    free(locks.ns);
    free(futex.ns);
}

int main(int argc, char **argv) {
    budget_ms = option_number(argc, argv, "--budget-ms", 300);
    all = G_MALLOC(sizeof *all)
    memset(all, 0, sizeof *all);
    ALOCKINIT(all->locks, LOCKS)
    BARINIT(all->barrier, 2)
    CREATE(run, 2)
    WAIT_FOR_END(2)
    MAIN_END
}
