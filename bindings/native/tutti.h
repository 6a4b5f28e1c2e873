/* tutti.h: the native interface of Tutti, beside MPI and OpenSHMEM: the program has started one of them. Link with -ltutti.
 * Functions return TUTTI_OK or a negative number. */
#ifndef TUTTI_H
#define TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_OK 0
#define TUTTI_ERR_ARG (-1)     /* an argument is wrong */
#define TUTTI_ERR_RUNNING (-2) /* nothing has been started, or all has ended */
#define TUTTI_ERR_REGION (-3)  /* there is no such region, or not any more */
#define TUTTI_ERR_RIGHT (-4)   /* the region is not open for that */
#define TUTTI_ERR_RANGE (-5)   /* the region ends before; the message is too long */
#define TUTTI_ERR_ALIGN (-6)   /* the number is not aligned */
#define TUTTI_ERR_REFUSED (-7) /* the target does not understand it */
#define TUTTI_ERR_FULL (-8)    /* the queue has no room; nothing of the message is in it */
#define TUTTI_ERR_GONE (-9)    /* the rank has left the job; the job of a published region has ended */
#define TUTTI_ERR_MEMORY (-10) /* there is no memory left, or 4096 regions are open */
#define TUTTI_EMPTY (-11)      /* the queue has no message */
#define TUTTI_ERR_BUSY (-12)   /* a part of the memory is open; the name is in use */
#define TUTTI_PENDING (-13)    /* not over yet */
#define TUTTI_ERR_MEMBER (-14) /* the caller is no member of the barrier, or is inside already */
#define TUTTI_ERR_DAEMON (-15) /* this node has no daemon that can be asked for another node's region */
#define TUTTI_ERR_NODE (-16)   /* the cluster has no such node, or it is not reached */
#define TUTTI_AWAY (-17)       /* not now: the partner sleeps, stands still, or is far behind */

/* Comparisons. */
#define TUTTI_EQ 1
#define TUTTI_NE 2
#define TUTTI_GT 3
#define TUTTI_GE 4
#define TUTTI_LT 5
#define TUTTI_LE 6

/* Partners: a rank of the own job is its number. */
#define TUTTI_ANY INT64_C(-1)
#define TUTTI_JOB(job) (INT64_C(-2) - (int64_t)(job))

/* Waits until the word at `flag` compares with `value`. While the partner runs, it spins for some 50 us; for a partner that sleeps,
 * stands still or is far behind it sleeps at once. A word of memory that calls of this library change (OpenSHMEM) wakes who waits;
 * any other word is looked at each millisecond, then less and less often, down to every 16 ms. */
int tutti_wait_until(const volatile int64_t *flag, int comparison, int64_t value, int64_t partner);

/* The same for as long as waiting pays, so that the caller does something else meanwhile: TUTTI_OK when it compares; TUTTI_AWAY when
 * the partner is away, at once if that is known; TUTTI_PENDING when the thread would sleep. */
int tutti_try_wait_until(const volatile int64_t *flag, int comparison, int64_t value, int64_t partner);

/* Says how many steps this rank has made, and how many another one may be behind before waits for it stop to spin. One of another node
 * is asked, and answers while it computes; one that does not answer stands still. */
int tutti_progress(uint64_t steps, uint64_t patience);

/* A parallel phase begins (OpenMP: on the master, before the region) and ends. In a job of `tutti run --phases` the first waits until
 * the parallel slots of the node are this job's; alone it is one load. Anywhere else both do nothing, also before MPI_Init and after
 * MPI_Finalize. Phases of several threads overlap: the slots are given back when the last has ended. */
void tutti_parallel_begin(void);
void tutti_parallel_end(void);

/* A barrier of a team of threads, for all members in a mask: member N is bit N, up to 63. Its memory is the program's, aligned to 8
 * bytes, and may be shared by ranks of one node. Works before MPI_Init too. A job that is frozen with some members inside goes on with
 * the same members inside. */
typedef struct tutti_parallel_barrier {
    uint64_t words[8];
} tutti_parallel_barrier;

/* Makes it; members 0 to 3 are the mask 0xf. Not while somebody waits in it (TUTTI_ERR_BUSY). */
int tutti_parallel_barrier_init(tutti_parallel_barrier *barrier, uint64_t mask);

/* Returns when all members of the mask have called it. Of who is not in the mask, or is inside already, it is an error
 * (TUTTI_ERR_MEMBER), returned at once, that changes nothing. */
int tutti_parallel_barrier_wait(tutti_parallel_barrier *barrier, int member);

/* The members that wait in it now. */
uint64_t tutti_parallel_barrier_inside(const tutti_parallel_barrier *barrier);

/* Rights: a sum of these. A queue is open for messages alone. */
#define TUTTI_READ 1
#define TUTTI_WRITE 2
#define TUTTI_ATOMIC 4

/* Names a region or a queue of a rank. Plain data: send it to whoever may use it, by any message of the job. */
typedef struct tutti_region {
    uint64_t words[6];
} tutti_region;

/* Completion in the memory of who starts an operation. Set it to zero; several operations may share it. It stays until all have
 * ended. `count` grows by one for each that has ended, also where the call returns an error: the operation has ended with it. But of
 * one that returns TUTTI_ERR_ARG nothing is noted. `status` is that of the first one that failed. */
typedef struct tutti_done {
    volatile int64_t count;
    volatile int32_t status;
    int32_t reserved;
} tutti_done;

/* The last argument of an operation: the call waits and returns the status; nobody is told but the next fence; or a tutti_done. */
#define TUTTI_WAIT ((tutti_done *)0)
#define TUTTI_POSTED ((tutti_done *)(intptr_t)-1)

/* A piece of a gathered write. */
typedef struct tutti_piece {
    uint64_t offset;
    const void *from;
    size_t bytes;
} tutti_piece;

/* A memory barrier that is started now and asked later. */
typedef struct tutti_fence {
    tutti_done done;
    int32_t expected;
    uint32_t number;
} tutti_fence;

/* Takes zeroed memory that may be opened, and gives it back; null where there is none. */
void *tutti_alloc(size_t bytes);
int tutti_free(void *memory);

/* Opens a part of memory from tutti_alloc; an alias is a part of an own region once more, with the same rights or fewer. Who
 * names a region that was closed is refused, also when its memory has been opened anew. */
int tutti_open(void *memory, size_t bytes, int rights, tutti_region *region);
int tutti_alias(const tutti_region *of, uint64_t offset, uint64_t bytes, int rights, tutti_region *alias);
int tutti_close(const tutti_region *region);

/* Operations on the region of any rank, which need not call anything. They are applied whole or, when they are refused, not at
 * all, if they fit a datagram, or end behind the region; the origin may be used again when the call returns. Those on one rank are
 * applied in order. */
int tutti_write(const tutti_region *region, uint64_t offset, const void *from, size_t bytes, tutti_done *done);
int tutti_writev(const tutti_region *region, const tutti_piece *pieces, int count, tutti_done *done);
int tutti_read(const tutti_region *region, uint64_t offset, void *into, size_t bytes, tutti_done *done);

/* Atomic changes of an aligned number of 8 bytes; what was there goes to `found`. */
int tutti_fetch_add(const tutti_region *region, uint64_t offset, int64_t value, int64_t *found, tutti_done *done);
int tutti_swap(const tutti_region *region, uint64_t offset, int64_t value, int64_t *found, tutti_done *done);
int tutti_compare_swap(const tutti_region *region, uint64_t offset, int64_t expected, int64_t value, int64_t *found,
                       tutti_done *done);

/* Queues of messages in the memory of their receiver: many senders, each one's messages in its order. A queue has room for one
 * message of `bytes` bytes, or several shorter ones. tutti_take needs the room in *bytes and gives the length; with `wait` it
 * waits for a message. */
int tutti_queue_open(size_t bytes, tutti_region *queue);
int tutti_put(const tutti_region *queue, const void *from, size_t bytes, tutti_done *done);
int tutti_take(const tutti_region *queue, void *into, size_t *bytes, int *from, int wait);

/* Writes the same bytes at the same offset of many regions, each with TUTTI_WRITE, over a tree of nodes: a node gets each packet
 * once, and the origin sends at most four, as long as ranks have opened the regions in the same order. It ends once, when all have
 * been written or have refused; its status is that of one that refused. `done` is not TUTTI_POSTED. */
int tutti_multicast(const tutti_region *regions, int count, uint64_t offset, const void *from, size_t bytes, tutti_done *done);

/* Signals: messages of at most `bytes` bytes, each of which starts a function of their receiver while it computes. They are sent by
 * tutti_put: one that has no room is refused, and each sender's come in its order. The function runs in a thread of the library,
 * one at a time; it may call what this header declares, and MPI where MPI_THREAD_MULTIPLE was given. It ends before tutti_close of
 * the signal returns, which functions cannot call (TUTTI_ERR_BUSY); what has not been taken then is dropped. */
typedef void (*tutti_handler)(const void *data, size_t bytes, int from, void *context);
int tutti_signal_open(size_t bytes, tutti_handler function, void *context, tutti_region *signal);

/* Global termination, for a message-driven program: its ranks wait for whatever comes, and it ends when nothing can come any more.
 * The function runs once on each rank, when all ranks that have not left have given one and wait for a message of any rank, for one
 * of several messages, or for a word of their memory that calls alone change (tutti_take, shmem_wait_until); no message
 * is under way and no function runs. It runs in a thread of the library; it may store what a wait of its own process is for, and
 * call what functions of signals may. For the next time a function is given again, in the function itself or later. A wait for a
 * certain rank, or in a collective call, is no such wait: the job is in a deadlock then, as without functions. NULL takes it back. */
typedef void (*tutti_termination)(void *context);
int tutti_on_termination(tutti_termination function, void *context);

/* Regions for other jobs. tutti_publish makes zeroed memory of `bytes` bytes and publishes it under a name (letters, digits and
 * . _ -; 64 at most): `rights` for `whom`, which is NULL (this user), "user:NAME", "group:NAME" or "everybody". Its owner reaches it
 * at *memory and by the handle, with all rights. tutti_publish_signal publishes a signal: messages of at most 32 KiB start the
 * function, and `bytes` is the room for those that it has not taken. tutti_close ends either for everybody. A name that is in use is
 * TUTTI_ERR_BUSY. It needs a job that mpiexec or tutti has started. */
int tutti_publish(const char *name, size_t bytes, int rights, const char *whom, void **memory, tutti_region *published);
int tutti_publish_signal(const char *name, size_t bytes, const char *whom, tutti_handler function, void *context,
                         tutti_region *published);

/* Opens a published region with some of its rights, or with all of them (0). `name` is "name" of this user, or "user/name", of this
 * node; behind it "@node" of a node of the cluster by its name, or "@*" of this one or any other. Its length goes to *bytes, unless
 * that is NULL. Any process may do so, in a job or not. The handle is good in this
 * process alone, for tutti_write, tutti_writev, tutti_read, the atomic changes, and tutti_put to a signal: all of them have ended when
 * they return, also while the owner's job is frozen. TUTTI_ERR_REGION: there is no such region, or it was closed; TUTTI_ERR_RIGHT: it
 * is not for this user, or not with these rights; TUTTI_ERR_GONE: its owner's job has ended; TUTTI_ERR_DAEMON, TUTTI_ERR_NODE: the
 * node is not reached. */
int tutti_open_published(const char *name, int rights, tutti_region *region, size_t *bytes);

/* The memory of a published region in this process, for loads and, with TUTTI_READ and TUTTI_WRITE, stores; null where there is
 * none. It stays until tutti_close of this handle. */
void *tutti_published_memory(const tutti_region *region);

/* Waits until the number at `offset` of a published region compares with `value`; the thread sleeps. It sees changes by calls of this
 * library. Who stores by itself says so by tutti_changed. */
int tutti_wait_for(const tutti_region *region, uint64_t offset, int comparison, int64_t value);
int tutti_changed(const tutti_region *region);

/* Covers the operations that this rank has started before, also those that another open fence covers. A fence that is over returns
 * TUTTI_OK, or why the first posted operation before it failed; of several fences that cover it, the one that is seen first. */
int tutti_fence_start(tutti_fence *fence);
int tutti_fence_test(const tutti_fence *fence);
int tutti_fence_wait(const tutti_fence *fence);

/* What a stamp of the library is of. */
#define TUTTI_STAMP_HANDED 1   /* a record was handed to the network; count: its bytes */
#define TUTTI_STAMP_SENT 2     /* a system call that sent; count: messages */
#define TUTTI_STAMP_RECEIVED 3 /* a system call that brought something; count: messages */
#define TUTTI_STAMP_APPLIED 4  /* a record of another rank was applied; count: its bytes */
#define TUTTI_STAMP_MAPPED 5   /* a region of a rank of this node was worked on; count: the bytes */
#define TUTTI_STAMP_ASKED 6    /* a DSE process asked its kernel, another process; count: the bytes */
#define TUTTI_STAMP_TAKEN 7    /* a DSE kernel has taken a question of its process */
#define TUTTI_STAMP_GIVEN 8    /* a DSE kernel answered its process; count: the bytes */
#define TUTTI_STAMP_OWN 16     /* marks of the program begin here */

/* When something happened, by CLOCK_MONOTONIC, and when the kernel had what it brought (0: not known). */
typedef struct tutti_stamped {
    uint64_t begin_ns, end_ns, arrived_ns;
    uint32_t mark, count;
} tutti_stamped;

/* Stamps: when what happened to operations on regions, kept in memory. From the start on, at most `room` are kept: those of the
 * program, and with `inner` those of the library. Stop gives how many there were, and the first `room` of them; more than the start
 * had room for are lost, and counted. While none are kept, they cost a branch each. `tutti trace-op` is made of them. Of a DSE
 * process whose kernel is another process, both keep stamps, each so many at most; those of the process come first. */
int tutti_stamps_start(size_t room, int inner);
int64_t tutti_stamps_stop(tutti_stamped *into, size_t room);
int tutti_stamp(uint32_t mark);

/* Failures and state of files of the origin. */
#define TUTTI_ERR_ORIGIN (-40) /* the job was started without --files, or the server of its files is not reached */
#define TUTTI_ERR_FILE (-41)   /* the origin says why not, in errno */

typedef struct tutti_origin_status {
    uint64_t bytes;
    int64_t modified_s;
    uint32_t modified_ns, mode; /* mode: as st_mode */
} tutti_origin_status;

/* Files of the origin, the node where the job was started with --files: by their names in its working directory or absolute paths, in
 * the folders that --files names. Open takes the flags and the mode of open(2) and gives a number; read and write give the bytes that
 * were moved, fewer at the end of the file. They wait for the origin. A link out of the folders is not followed (EXDEV). */
int tutti_origin_open(const char *name, int flags, int mode);
int64_t tutti_origin_read(int file, void *data, size_t bytes, int64_t offset);
int64_t tutti_origin_write(int file, const void *data, size_t bytes, int64_t offset);
int tutti_origin_stat(const char *name, tutti_origin_status *status);
int tutti_origin_close(int file);

#ifdef __cplusplus
}
#endif
#endif
