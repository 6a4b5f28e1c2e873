/*
 * What the machine itself can do: the floor under every figure of the other programs. No MPI in here.
 *
 *   limits            one line per figure
 *   limits floor P    fork and exec P twice, wait for both (its whole time is the floor of a launch)
 *   limits nothing    leave at once
 */
#include "bench.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* One word per cache line (two lines apart: the adjacent-line prefetcher fetches pairs). */
struct word {
    _Alignas(128) atomic_uint value;
};

static struct word ping, pong;
static unsigned char *buffers[2], *cold_from[2], *cold_to[2];
static size_t copy_bytes, cold_stride;
static int rounds, use_futex;

static const size_t COLD_BYTES = 64u << 20;

static cpu_set_t only(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return set;
}

static void bind_to(int core) {
    cpu_set_t set = only(core);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0) {
        fprintf(stderr, "limits: cannot bind to core %d; its figures are of an unbound thread\n", core);
    }
}

/* A thread that is bound before it first runs: under real-time priority it would never get off a core whose thread spins. */
static int start_on(int core, pthread_t *thread, void *(*body)(void *)) {
    cpu_set_t set = only(core);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    int failed = pthread_create(thread, &attributes, body, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

static void await(atomic_uint *word, unsigned value) {
    unsigned seen;
    while ((seen = atomic_load_explicit(word, memory_order_acquire)) != value) {
        if (use_futex) {
            syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
        }
    }
}

static void tell(atomic_uint *word, unsigned value) {
    atomic_store_explicit(word, value, memory_order_release);
    if (use_futex) {
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

/* The receiver's single copy: from the other's buffer into its own; hot, or rotating through memory. */
static void receive(int side, int i) {
    if (copy_bytes == 0) {
        return;
    }
    if (cold_stride > 0) {
        size_t at = (size_t)i * cold_stride % (COLD_BYTES - copy_bytes + 1) / 4096 * 4096;
        memcpy(cold_to[side] + at, cold_from[1 - side] + at, copy_bytes);
    } else {
        memcpy(buffers[side], buffers[1 - side] + copy_bytes, copy_bytes);
    }
}

static void *answer(void *unused) {
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        await(&ping.value, (unsigned)i + 1);
        receive(1, i);
        tell(&pong.value, (unsigned)i + 1);
    }
    return NULL;
}

/* Round trip between two cores: the notification alone, or with one copy each way. */
static void round_trip(size_t bytes, size_t cold, int futex, int count, const char *what) {
    struct samples samples = samples_new();
    pthread_t other;
    int per_batch = bytes >= 65536 || futex ? 1 : 100;
    rounds = count / per_batch * per_batch;
    copy_bytes = bytes;
    cold_stride = cold;
    use_futex = futex;
    buffers[0] = touched(2 * bytes);
    buffers[1] = touched(2 * bytes);
    atomic_store(&ping.value, 0);
    atomic_store(&pong.value, 0);
    if (start_on(sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0, &other, answer) != 0) {
        fprintf(stderr, "limits: no second thread\n");
        exit(1);
    }
    for (int i = 0; i < rounds;) {
        double start = now_ns();
        for (int j = 0; j < per_batch; j++, i++) {
            tell(&ping.value, (unsigned)i + 1);
            await(&pong.value, (unsigned)i + 1);
            receive(0, i);
        }
        if (i > rounds / 10) {
            samples_add(&samples, (now_ns() - start) / per_batch);
        }
    }
    pthread_join(other, NULL);
    double p99 = samples_quantile(&samples, 0.99), median = samples_quantile(&samples, 0.5);
    printf("limits what=%s bytes=%zu median_ns=%.1f p99_ns=%.1f n=%zu\n", what, bytes, median, p99, samples.count);
    fflush(stdout);
    free(samples.ns);
    free(buffers[0]);
    free(buffers[1]);
}

static void copies(size_t bytes) {
    struct samples samples = samples_new();
    unsigned char *from = touched(bytes), *to = touched(bytes);
    for (int i = 0; i < 200; i++) {
        double start = now_ns();
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
        samples_add(&samples, now_ns() - start);
    }
    double median = samples_quantile(&samples, 0.5);
    printf("limits what=memcpy bytes=%zu median_gbs=%.2f n=%zu\n", bytes, (double)bytes / median, samples.count);
    free(samples.ns);
    free(from);
    free(to);
}

static void yields(void) {
    enum { COUNT = 20000 };
    double start = now_ns();
    for (int i = 0; i < COUNT; i++) {
        sched_yield();
    }
    printf("limits what=yield median_ns=%.1f n=%d\n", (now_ns() - start) / COUNT, COUNT);
}

/* Two processes on one core hand it to each other: what a switch costs, the call included. */
static void switches(void) {
    enum { COUNT = 20000 };
    double *result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t other = fork();
    if (result == MAP_FAILED || other < 0) {
        fprintf(stderr, "limits: no second process\n");
        exit(1);
    }
    double start = now_ns();
    for (int i = 0; i < COUNT; i++) {
        sched_yield();
    }
    if (other == 0) {
        *result = now_ns() - start;
        _exit(0);
    }
    double mine = now_ns() - start;
    waitpid(other, NULL, 0);
    /* Both run in the same time; who ends first has had the other beside it all along. */
    printf("limits what=switch median_ns=%.1f n=%d\n", (*result < mine ? *result : mine) / (2 * COUNT), 2 * COUNT);
    fflush(stdout);
    munmap(result, sizeof *result);
}

static int floor_of_launch(char **program) {
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execv(program[0], program);
            _exit(127);
        }
        if (pid < 0) {
            fprintf(stderr, "limits: fork: %s\n", strerror(errno));
            return 1;
        }
    }
    int status, worst = 0;
    while (wait(&status) > 0) {
        worst |= status;
    }
    return worst != 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "nothing") == 0) {
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "floor") == 0) {
        return floor_of_launch(argv + 2);
    }
    bind_to(0);
    printf("limits what=work median_ns=%.4f n=400\n", work_ns_per_loop());
    yields();
    fflush(stdout);
    switches();
    round_trip(0, 0, 0, 200000, "rtt");
    static const size_t sizes[] = {1024, 4096, 16384, 65536, 262144, 1048576, 4194304};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        round_trip(sizes[i], 0, 0, sizes[i] >= 262144 ? 300 : 3000, "rtt");
    }
    for (int side = 0; side < 2; side++) {
        cold_from[side] = touched(COLD_BYTES);
        cold_to[side] = touched(COLD_BYTES);
    }
    for (size_t i = 3; i < sizeof sizes / sizeof sizes[0]; i++) {
        round_trip(sizes[i], sizes[i], 0, sizes[i] >= 1048576 ? 150 : 1500, "rtt_cold");
    }
    round_trip(0, 0, 1, 4000, "futex_rtt");
    copies(65536);
    copies(1048576);
    copies(16777216);
    return 0;
}
