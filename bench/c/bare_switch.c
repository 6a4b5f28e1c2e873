/*
 * What a switch of a gang costs at the least on this machine: nothing but the system calls that it cannot do without. A process a node with
 * real-time priority, a datagram to each one along a tree and one back, two writes to the freezer of a program that only computes.
 *
 *   bare_switch [--nodes 32] [--slice-ms 100] [--budget-ms 1000] [--rounds 3]
 *
 * By turns: the programs compute for the time without being switched, and with a switch off and on in every slice. Needs cgroups of
 * its own, and so root.
 */
#include "bench.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES_MAX = 64, ARITY = 4, PIECE = 20000, OFF = 1, ON = 2, FROZEN = 3 };

/* What all processes share. */
struct shared {
    volatile int switches;
    volatile uint64_t done;
    struct {
        volatile uint64_t pieces;
        char apart[56];
    } ranks[NODES_MAX];
};

static struct shared *shared;
static char home[64];
static int sockets[NODES_MAX];
static struct sockaddr_in places[NODES_MAX];
static volatile uint64_t sink;
static pid_t pids[2 * NODES_MAX];
static int nodes;

static void die(const char *what) {
    fprintf(stderr, "bare_switch: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* A process of ours ends with us. */
static void begin_child(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

static int open_file(int node, const char *name, int how) {
    char path[128];
    snprintf(path, sizeof path, "%s/%d/%s", home, node, name);
    return open(path, how | O_CLOEXEC);
}

/* A program that only computes, in a cgroup of its own. */
static pid_t start_rank(int node) {
    char path[128];
    snprintf(path, sizeof path, "%s/%d", home, node);
    if (mkdir(path, 0700) != 0) {
        die(path);
    }
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    begin_child();
    int procs = open_file(node, "cgroup.procs", O_WRONLY);
    if (procs < 0 || write(procs, "0", 1) != 1) {
        die("cgroup.procs");
    }
    for (;;) {
        sink = work(PIECE);
        shared->ranks[node].pieces++;
    }
}

static void say(int from, int to, char what) {
    char text[64] = {what};
    if (sendto(sockets[from], text, sizeof text, 0, (struct sockaddr *)&places[to], sizeof places[to]) < 0) {
        die("sendto");
    }
}

static void put(int file, const char *text) {
    if (pwrite(file, text, 1, 0) != 1) {
        die("cgroup.freeze");
    }
}

/* A node's part of a switch: those below first, then its own program; says to the one above when all stand still. */
static void switch_node(int me, double slice_ns) {
    int freezer = open_file(me, "cgroup.freeze", O_WRONLY), events = open_file(me, "cgroup.events", O_RDONLY);
    struct sched_param priority = {.sched_priority = 1};
    if (freezer < 0 || events < 0 || sched_setscheduler(0, SCHED_FIFO, &priority) != 0 || mlockall(MCL_CURRENT) != 0) {
        die("the freezer, or real-time priority");
    }
    int first = me * ARITY + 1, children = first >= nodes ? 0 : nodes - first < ARITY ? nodes - first : ARITY;
    int awaited = 0, freezing = 0, is_off = 0;
    double next_ns = now_ns() + slice_ns;
    for (;;) {
        struct pollfd polled[2] = {{sockets[me], POLLIN, 0}, {events, POLLPRI, 0}};
        double left_ns = next_ns - now_ns();
        struct timespec left = {0, left_ns > 0 ? (long)left_ns : 0};
        ppoll(polled, 1 + freezing, me == 0 && !is_off ? &left : NULL, NULL);
        char text[64] = {0};
        if (polled[0].revents != 0 && recv(sockets[me], text, sizeof text, 0) < 0) {
            die("recv");
        }
        if (me == 0 && !is_off && now_ns() >= next_ns) {
            next_ns += slice_ns;
            text[0] = shared->switches ? OFF : 0;
        }
        if (text[0] == OFF) {
            for (int child = first; child < first + children; child++) {
                say(me, child, OFF);
            }
            put(freezer, "1");
            is_off = freezing = 1;
            awaited = children;
        } else if (text[0] == FROZEN) {
            awaited--;
        } else if (text[0] == ON) {
            for (int child = first; child < first + children; child++) {
                say(me, child, ON);
            }
            put(freezer, "0");
            is_off = 0;
        }
        if (freezing && polled[1].revents != 0) {
            char state[64] = {0};
            if (pread(events, state, sizeof state - 1, 0) > 0 && strstr(state, "frozen 1") != NULL) {
                freezing = 0;
            }
        }
        if (is_off && !freezing && awaited == 0) {
            awaited = -1;
            if (me != 0) {
                say(me, (me - 1) / ARITY, FROZEN);
                continue;
            }
            for (int child = first; child < first + children; child++) {
                say(me, child, ON);
            }
            put(freezer, "0");
            is_off = 0;
            shared->done++;
        }
    }
}

static uint64_t pieces_in(double budget_ms, int switches) {
    uint64_t before = 0, after = 0;
    shared->switches = switches;
    usleep(20000);
    for (int node = 0; node < nodes; node++) {
        before += shared->ranks[node].pieces;
    }
    usleep((useconds_t)(budget_ms * 1000));
    for (int node = 0; node < nodes; node++) {
        after += shared->ranks[node].pieces;
    }
    return after - before;
}

/* Ends all processes and leaves no cgroup behind. */
static void end(void) {
    char path[128];
    for (int index = 0; index < 2 * nodes; index++) {
        if (pids[index] > 0) {
            kill(pids[index], SIGKILL);
        }
    }
    while (wait(NULL) > 0) {
    }
    for (int node = 0; node < nodes; node++) {
        snprintf(path, sizeof path, "%s/%d", home, node);
        rmdir(path);
    }
    rmdir(home);
}

static void interrupted(int signal) {
    end();
    _exit(128 + signal);
}

int main(int argc, char **argv) {
    nodes = (int)option_number(argc, argv, "--nodes", 32);
    int rounds = (int)option_number(argc, argv, "--rounds", 3);
    double slice_ms = option_number(argc, argv, "--slice-ms", 100), budget_ms = option_number(argc, argv, "--budget-ms", 1000);
    if (nodes < 1 || nodes > NODES_MAX) {
        fprintf(stderr, "bare_switch: --nodes is 1 to %d\n", NODES_MAX);
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *mount = access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0 ? "/unified" : "";
    snprintf(home, sizeof home, "/sys/fs/cgroup%s/tutti-bare-%d", mount, (int)getpid());
    if (shared == MAP_FAILED || mkdir(home, 0700) != 0) {
        die(home);
    }
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    for (int node = 0; node < nodes; node++) {
        sockets[node] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        places[node] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof places[node];
        if (sockets[node] < 0 || bind(sockets[node], (struct sockaddr *)&places[node], size) != 0 ||
            getsockname(sockets[node], (struct sockaddr *)&places[node], &size) != 0) {
            die("socket");
        }
        pids[node] = start_rank(node);
    }
    usleep(100000);
    for (int node = 0; node < nodes; node++) {
        pids[nodes + node] = fork();
        if (pids[nodes + node] == 0) {
            begin_child();
            switch_node(node, slice_ms * 1e6);
        }
    }
    /* It is to look when the time is over. */
    setpriority(PRIO_PROCESS, 0, -20);
    struct samples slower = samples_new();
    for (int round = 0; round < rounds; round++) {
        double without = (double)pieces_in(budget_ms, 0);
        double with = (double)pieces_in(budget_ms, 1);
        samples_add(&slower, (without / with - 1) * 100);
    }
    end();
    if (shared->done == 0) {
        fprintf(stderr, "bare_switch: no switch was done\n");
        return 1;
    }
    printf("bare_switch nodes=%d switches=%llu slower_percent=%.3f least=%.3f most=%.3f\n", nodes,
           (unsigned long long)shared->done, samples_quantile(&slower, 0.5), samples_quantile(&slower, 0.0),
           samples_quantile(&slower, 1.0));
    return 0;
}
