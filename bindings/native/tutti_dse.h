/* tutti_dse.h: DSE's programming model: processor elements with local and global memory. Compile with mpicc, start with
 * mpiexec: an element is a process of the job. One thread of a process calls these functions.
 *
 * A function returns 0 or one of the codes below; tutti_dse_text() has the reason in words. Nothing that is refused has
 * changed anything, here or at another element. */
#ifndef TUTTI_DSE_H
#define TUTTI_DSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_DSE_OK 0
#define TUTTI_DSE_NOT_RUNNING 1     /* before tutti_dse_init, after tutti_dse_finish, or started twice */
#define TUTTI_DSE_NO_ELEMENT 2      /* there is no such element */
#define TUTTI_DSE_OUT_OF_RANGE 3    /* the bytes are not inside the global memory */
#define TUTTI_DSE_NOT_A_NEIGHBOUR 4 /* the topology does not connect the two elements */
#define TUTTI_DSE_INVALID 5         /* no such lock, semaphore, function or topology; a null pointer */
#define TUTTI_DSE_HELD 6            /* this thread has the lock already */
#define TUTTI_DSE_NOT_HELD 7        /* this element does not have the lock */
#define TUTTI_DSE_BUSY 8            /* something is under way there */
#define TUTTI_DSE_NOTHING_STARTED 9 /* there is no process to wait for */
#define TUTTI_DSE_NO_MEMORY 10
#define TUTTI_DSE_NO_PROGRAM 11     /* a program cannot be started: the one asked for, or the element's kernel */
#define TUTTI_DSE_ENDED 12          /* what was started was ended before it had begun */

#define TUTTI_DSE_LOCKS 64
#define TUTTI_DSE_SEMAPHORES 64

#define TUTTI_DSE_FULL 0
#define TUTTI_DSE_RING 1
#define TUTTI_DSE_STAR 2
#define TUTTI_DSE_TREE 3      /* binary; the parent of n is (n - 1) / 2 */
#define TUTTI_DSE_HYPERCUBE 4 /* a power of two of elements */
#define TUTTI_DSE_MESH 5      /* rows of so many columns */
#define TUTTI_DSE_TORUS 6
#define TUTTI_DSE_ROUTES 16 /* with one of these: what is for others than neighbours is forwarded, not refused */

typedef int64_t tutti_dse_function(int64_t argument);

/* The reason of the last refusal; valid until the next. */
const char *tutti_dse_text(void);

/* Start, each element with so many bytes of global memory, zero at first; and end. Called by all. With
 * TUTTI_DSE_KERNEL=apart in the environment the kernel of an element, which has its global memory and its place in the
 * job, is a process of its own; the program is the same, but may not call MPI or OpenSHMEM. */
int tutti_dse_init(size_t global_bytes);
int tutti_dse_finish(void);
/* The number of this element from 0 on, and how many there are; -1 while they do not run. */
int tutti_dse_element(void);
int tutti_dse_elements(void);
/* All elements have come here, and their writes are done. */
int tutti_dse_barrier(void);

/* Global memory of an element from byte `at` on. A write returns when `from` may be changed; it is done when a write with
 * confirmation, tutti_dse_confirm, unlock, post or barrier has returned. Writes to one element are done in order. */
int tutti_dse_read(int element, size_t at, void *to, size_t bytes);
int tutti_dse_write(int element, size_t at, const void *from, size_t bytes);
int tutti_dse_write_confirmed(int element, size_t at, const void *from, size_t bytes);
int tutti_dse_confirm(void);

/* A process on another element: a function that all have registered in the same order (-1: null). It runs when that
 * element serves; an element has one at a time on each other. Wait gives what the function returned. Dismiss ends the
 * call by which an element serves, after all that has been started there. */
int tutti_dse_register(tutti_dse_function *function);
int tutti_dse_start(int element, int function, int64_t argument);
int tutti_dse_wait(int element, int64_t *value);
int tutti_dse_serve(void);
int tutti_dse_dismiss(int element);

/* From now on, until the end, this element serves while its program computes: what others start runs at once. Functions run one at a
 * time in a thread of the library and may call what this header declares; with a kernel apart, programs alone run so, and functions
 * wait for tutti_dse_serve. */
int tutti_dse_serve_beside(void);

/* Asks for the end of what this element has started there; tutti_dse_wait gives its end as ever. A program gets SIGTERM, and
 * SIGKILL when it is asked again. A function asks tutti_dse_is_ended: 1 if it is to end, else 0, -1 while elements do not run.
 * What has not begun never does, and tutti_dse_wait returns TUTTI_DSE_ENDED. */
int tutti_dse_end(int element);
int tutti_dse_is_ended(void);

/* A program as a process on another element: its words, a null behind the last, 2048 bytes with their ends at most. The
 * first is searched for in PATH. It runs when that element serves, beside others' and beside a function, and is no element
 * itself; its standard input is empty and its output that of the element. Wait gives its exit status, 128 and its number if a signal ended it, or returns
 * TUTTI_DSE_NO_PROGRAM. */
int tutti_dse_start_program(int element, const char *const *words);

/* First come, first served. */
int tutti_dse_lock(int lock);
int tutti_dse_unlock(int lock);
int tutti_dse_semaphore_set(int semaphore, uint32_t value);
int tutti_dse_semaphore_wait(int semaphore);
int tutti_dse_semaphore_post(int semaphore);

/* From now on only neighbours are read, written and given processes. With TUTTI_DSE_ROUTES others are too, by way of
 * neighbours, whose programs need not call anything; such a write is done when it returns. Called by all with the same. */
int tutti_dse_topology(int kind, int columns);
/* Hops that the last operation of this element that was forwarded has gone; 0 if none was, -1 while they do not run. */
int tutti_dse_hops(void);
/* The neighbour on a shortest way to an element, and the length of the way. Either may be null. */
int tutti_dse_next_hop(int to, int *next, int *hops);

#ifdef __cplusplus
}
#endif

#endif
