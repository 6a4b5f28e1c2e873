/*
 * Two PEs that pass a word to each other while others compete for their cores, by four ways to wait:
 *
 *   waiting [--budget-ms 400] [--rounds 3] [--loops 2000] [--frozen-ms 1000]
 *
 *   ss           tutti_wait_until, which is told who is awaited
 *   spin         looks at the word, and nothing else
 *   block        sleeps in a futex; who stores always wakes
 *   spin-block   looks for 20 us, then sleeps; who stores wakes whoever sleeps
 *
 * Before it passes the word on, a PE does so many loops of work. Competitors are processes that only compute, 0, 1 and
 * 3 of them pinned to each core; their own speed is that beside a pair that does not run, in the same run. Ways
 * take turns. At the end a PE that is stopped is awaited: what counts is the time that the waiting process uses.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <shmem.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tutti.h>
#include <unistd.h>

enum way { SS, SPIN, BLOCK, SPIN_BLOCK, WAYS };
enum { COMPETITORS_MAX = 256, LOADS = 3, ROUNDS_MAX = 16, LINE = 8 };

static const char *const names[WAYS] = {"ss", "spin", "block", "spin-block"};
static const int loads[LOADS] = {0, 1, 3};
static const double spin_ns = 20e3;

static int me, cores[CPU_SETSIZE], core_count;
static uint64_t loops;
static double budget_ms;
/* For tutti_wait_until: symmetric. Nobody asks for its address elsewhere, so all stores to it are calls. */
static int64_t *announced;
/* For the others, in memory of both, a line each: the word that the other PE stores here, and whether this one sleeps. */
static int64_t *word, *sleeping, *other_word, *other_sleeping;
static int64_t last;

static void fail(const char *what) {
    fprintf(stderr, "waiting: %s: %s\n", what, strerror(errno));
    shmem_global_exit(1);
    exit(1);
}

static int64_t load(const int64_t *at) {
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

/* The low half of a word: it changes with each pass. */
static long futex(int64_t *at, int operation, uint32_t value) {
    return syscall(SYS_futex, (uint32_t *)(void *)at, operation, value, NULL, NULL, 0);
}

static void block_until(int64_t value) {
    __atomic_store_n(sleeping, 1, __ATOMIC_SEQ_CST);
    for (int64_t found; (found = load(word)) < value;) {
        if (futex(word, FUTEX_WAIT, (uint32_t)found) != 0 && errno != EAGAIN && errno != EINTR) {
            fail("futex");
        }
    }
    __atomic_store_n(sleeping, 0, __ATOMIC_SEQ_CST);
}

static void await(enum way way, int64_t value) {
    double until = 0;
    switch (way) {
    case SS:
        if (tutti_wait_until(announced, TUTTI_GE, value, 1 - me) != TUTTI_OK) {
            fail("tutti_wait_until");
        }
        return;
    case SPIN:
        while (load(word) < value) {
            __builtin_ia32_pause();
        }
        return;
    case SPIN_BLOCK:
        until = now_ns() + spin_ns;
        while (load(word) < value && now_ns() < until) {
            __builtin_ia32_pause();
        }
        if (load(word) < value) {
            block_until(value);
        }
        return;
    default:
        block_until(value);
    }
}

static void pass(enum way way, int64_t value) {
    if (way == SS) {
        shmem_int64_p(announced, value, 1 - me);
        return;
    }
    __atomic_store_n(other_word, value, __ATOMIC_SEQ_CST);
    if (way == BLOCK || (way == SPIN_BLOCK && load(other_sleeping) != 0)) {
        futex(other_word, FUTEX_WAKE, 1);
    }
}

/*
 * Passes words for as long as the budget lasts: an odd one is the last. Gives what a round takes in the mean: slices that
 * others have in between count.
 */
static double exchange(enum way way) {
    double begin = now_ns();
    long rounds = 0;
    for (int is_over = 0; !is_over; rounds++) {
        last += 2;
        if (me == 0) {
            is_over = now_ns() - begin >= budget_ms * 1e6;
            work(loops);
            pass(way, last + is_over);
            await(way, last);
        } else {
            await(way, last);
            is_over = (int)(load(way == SS ? announced : word) & 1);
            work(loops);
            pass(way, last);
        }
    }
    return (now_ns() - begin) / (double)rounds;
}

/* Processes that only compute, and how far they are. */
struct crowd {
    int count;
    pid_t pids[COMPETITORS_MAX];
    int64_t *steps;
};

static void crowd_begin(struct crowd *crowd, int per_core) {
    crowd->count = 0;
    for (int i = 0; me == 0 && i < per_core * core_count && i < COMPETITORS_MAX; i++) {
        pid_t parent = getpid(), pid = fork();
        if (pid < 0) {
            fail("fork");
        }
        if (pid == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cores[i % core_count], &one);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (sched_setaffinity(0, sizeof one, &one) != 0 || getppid() != parent) {
                _exit(1);
            }
            for (;;) {
                work(5000);
                __atomic_fetch_add(&crowd->steps[i * LINE], 1, __ATOMIC_RELAXED);
            }
        }
        crowd->pids[crowd->count++] = pid;
    }
}

static int64_t crowd_steps(const struct crowd *crowd) {
    int64_t sum = 0;
    for (int i = 0; i < crowd->count; i++) {
        sum += load(&crowd->steps[i * LINE]);
    }
    return sum;
}

static void crowd_end(struct crowd *crowd) {
    for (int i = 0; i < crowd->count; i++) {
        kill(crowd->pids[i], SIGKILL);
        waitpid(crowd->pids[i], NULL, 0);
    }
}

/* Steps of the crowd in a millisecond while `way` is used; WAYS: while the pair does not run. */
static double measure(const struct crowd *crowd, enum way way, struct samples *means) {
    shmem_barrier_all();
    int64_t before = crowd_steps(crowd);
    double begin = now_ns();
    if (way == WAYS) {
        usleep((useconds_t)(budget_ms * 1e3));
    } else {
        samples_add(means, exchange(way));
    }
    double rate = (double)(crowd_steps(crowd) - before) / (now_ns() - begin) * 1e6;
    shmem_barrier_all();
    return rate;
}

static void measure_load(struct crowd *crowd, int per_core, int rounds) {
    struct samples means[WAYS], rates[WAYS + 1];
    for (int way = 0; way < WAYS; way++) {
        means[way] = samples_new();
    }
    for (int way = 0; way <= WAYS; way++) {
        rates[way] = samples_new();
    }
    crowd_begin(crowd, per_core);
    for (int round = 0; round < rounds; round++) {
        for (int way = 0; way <= WAYS; way++) {
            double rate = measure(crowd, (enum way)way, way < WAYS ? &means[way] : NULL);
            samples_add(&rates[way], rate);
        }
    }
    crowd_end(crowd);
    double alone = samples_quantile(&rates[WAYS], 0.5);
    for (int way = 0; me == 0 && way < WAYS; way++) {
        double share = per_core > 0 && alone > 0 ? samples_quantile(&rates[way], 0.5) / alone : 1.0;
        printf("waiting way=%s competitors=%d mean_us=%.3f others_share=%.3f n=%zu\n", names[way], per_core,
               samples_quantile(&means[way], 0.5) / 1e3, share, means[way].count);
        fflush(stdout);
    }
    for (int way = 0; way < WAYS; way++) {
        free(means[way].ns);
    }
    for (int way = 0; way <= WAYS; way++) {
        free(rates[way].ns);
    }
}

static int is_stopped(pid_t pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fread(text, 1, sizeof text - 1, file) == 0) {
        fail(path);
    }
    fclose(file);
    const char *behind = strrchr(text, ')');
    return behind != NULL && behind[2] == 'T';
}

static double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* PE 1 stops itself, and passes the word when it goes on; a child of PE 0 lets it. */
static void await_stopped(enum way way, double stopped_ms) {
    static int64_t pid;
    int64_t own = getpid();
    shmem_int64_p(&pid, own, 1 - me);
    shmem_barrier_all();
    last += 2;
    if (me == 1) {
        raise(SIGSTOP);
        pass(way, last);
    } else {
        pid_t child = fork();
        if (child < 0) {
            fail("fork");
        }
        if (child == 0) {
            usleep((useconds_t)(stopped_ms * 1e3));
            _exit(kill((pid_t)pid, SIGCONT) != 0);
        }
        while (!is_stopped((pid_t)pid)) {
            usleep(1000);
        }
        double begin = now_ns(), before = cpu_ns();
        await(way, last);
        double used_us = (cpu_ns() - before) / 1e3, took_ms = (now_ns() - begin) / 1e6;
        waitpid(child, NULL, 0);
        printf("waiting partner=stopped way=%s cpu_us=%.1f of_ms=%.0f\n", names[way], used_us, took_ms);
        fflush(stdout);
    }
    shmem_barrier_all();
}

/* A page of PE 0 that both map. */
static void map_words(void) {
    static int64_t place[2];
    char path[64];
    if (me == 0) {
        int made = (int)syscall(SYS_memfd_create, "waiting", 0);
        if (made < 0 || ftruncate(made, 4096) != 0) {
            fail("memfd");
        }
        int64_t pid = getpid(), number = made;
        for (int pe = 0; pe < 2; pe++) {
            shmem_int64_p(&place[0], pid, pe);
            shmem_int64_p(&place[1], number, pe);
        }
    }
    shmem_barrier_all();
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)place[0], (int)place[1]);
    int opened = open(path, O_RDWR);
    if (opened < 0) {
        fail(path);
    }
    int64_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    if (words == MAP_FAILED) {
        fail("mmap");
    }
    word = words + me * 2 * LINE, other_word = words + (1 - me) * 2 * LINE;
    sleeping = word + LINE, other_sleeping = other_word + LINE;
    shmem_barrier_all();
}

int main(int argc, char **argv) {
    budget_ms = option_number(argc, argv, "--budget-ms", 400);
    loops = (uint64_t)option_number(argc, argv, "--loops", 2000);
    int rounds = (int)option_number(argc, argv, "--rounds", 3);
    double stopped_ms = option_number(argc, argv, "--frozen-ms", 1000);
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        fail("sched_getaffinity");
    }
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed)) {
            cores[core_count++] = core;
        }
    }
    shmem_init();
    me = shmem_my_pe();
    if (shmem_n_pes() != 2) {
        fprintf(stderr, "waiting: expected 2 PEs on one node\n");
        return 1;
    }
    announced = shmem_calloc(1, sizeof *announced);
    map_words();
    struct crowd crowd;
    crowd.steps = mmap(NULL, COMPETITORS_MAX * LINE * sizeof(int64_t), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crowd.steps == MAP_FAILED) {
        fail("mmap");
    }
    shmem_barrier_all();
    for (int i = 0; i < LOADS; i++) {
        measure_load(&crowd, loads[i], rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds);
    }
    for (int way = 0; way < WAYS; way++) {
        await_stopped((enum way)way, stopped_ms);
    }
    shmem_finalize();
    return 0;
}
