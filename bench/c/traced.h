/*
 * Instructions of a section of this process: a child of it steps it through (ptrace) and counts; a call of
 * the kernel counts as one.
 *
 *   pid_t tracer = start_tracer();      before the library starts
 *   be_traced(tracer);                  in the process that counts; need_no_tracer() in the others
 *   COUNTED(calls); traced->count       as often as wanted
 */
#ifndef TRACED_H
#define TRACED_H

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a process shares with its tracer. Writer of `is_inside`: the process. Of the others: as said. */
struct traced {
    atomic_int is_wanted; /* process: 1 attach, -1 there is nothing to trace */
    atomic_int is_there;  /* tracer: 1 attached, -1 it may not */
    atomic_int is_inside; /* process: whether it is in a section */
    uint64_t count;       /* tracer: instructions of the last section */
};

static struct traced *traced;

/* Counts each section of its parent until that ends. */
static void trace(pid_t parent) {
    int wanted, status;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((wanted = atomic_load(&traced->is_wanted)) == 0) {
        if (getppid() != parent) {
            _exit(0);
        }
        usleep(200);
    }
    if (wanted < 0) {
        _exit(0);
    }
    if (ptrace(PTRACE_SEIZE, parent, NULL, NULL) != 0) {
        atomic_store(&traced->is_there, -1);
        _exit(0);
    }
    atomic_store(&traced->is_there, 1);
    int is_stepping = 0;
    uint64_t count = 0;
    for (;;) {
        if (waitpid(parent, &status, __WALL) != parent || !WIFSTOPPED(status)) {
            _exit(0);
        }
        int signal = WSTOPSIG(status), is_event = status >> 16 != 0;
        if (signal == SIGTRAP && !is_event) {
            signal = 0; /* the step, or the trap with which a section begins */
            if (!is_stepping) {
                is_stepping = 1;
                count = 0;
            } else if (atomic_load_explicit(&traced->is_inside, memory_order_relaxed)) {
                count++;
            } else {
                is_stepping = 0;
                traced->count = count;
            }
        } else if (is_event) {
            signal = 0;
        }
        ptrace(is_stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, parent, NULL, (void *)(long)signal);
    }
}

/* A section. The first write is not counted: the trap comes after it. */
#define COUNTED(calls)                                                                                                 \
    do {                                                                                                               \
        atomic_store_explicit(&traced->is_inside, 1, memory_order_relaxed);                                            \
        __asm__ volatile("int3" ::: "memory");                                                                         \
        calls;                                                                                                         \
        atomic_signal_fence(memory_order_seq_cst);                                                                     \
        atomic_store_explicit(&traced->is_inside, 0, memory_order_relaxed);                                            \
        __asm__ volatile("nop" ::: "memory");                                                                          \
    } while (0)

/* Starts the tracer of this process, which waits until it is wanted; -1: it cannot be had. */
static pid_t start_tracer(void) {
    traced = mmap(NULL, sizeof *traced, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (traced == MAP_FAILED) {
        return -1;
    }
    pid_t self = getpid(), tracer = fork();
    if (tracer == 0) {
        trace(self);
    }
    return tracer;
}

/* From now on sections of this process are counted; 0: it may not be traced. */
static int be_traced(pid_t tracer) {
    prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
    atomic_store(&traced->is_wanted, 1);
    while (atomic_load(&traced->is_there) == 0) {
        sched_yield();
    }
    return atomic_load(&traced->is_there) > 0;
}

/* Nothing is counted in this process. */
static void need_no_tracer(void) {
    atomic_store(&traced->is_wanted, -1);
}

#endif
