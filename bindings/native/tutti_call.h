/* tutti_call.h: functions that ranks start on each other; tutti.hpp makes it convenient from C++. Link with -ltutti.
 * Functions return TUTTI_OK, a number that is asked for, or a negative number: those of tutti.h and these. */
#ifndef TUTTI_CALL_H
#define TUTTI_CALL_H

#include <tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ERR_FUNCTION (-17) /* here: the descriptor can be written; there: the rank does not have the function */
#define TUTTI_ERR_THREAD (-18)   /* another thread has called tutti_call_init */
#define TUTTI_ERR_LONG (-19)     /* arguments or result are longer than 2048 bytes; the caller has less room */
#define TUTTI_ERR_RANK (-20)     /* there is no such rank */
#define TUTTI_THREW (-21)        /* the function has ended with an exception, whose text is the data of the answer */

/* First word of a descriptor. */
#define TUTTI_CALL_MAGIC UINT64_C(0x5455545449434c01)
/* Bytes of arguments, and of a result, at most. */
#define TUTTI_CALL_BYTES_MAX 2048
/* Bytes for which every answer has room. */
#define TUTTI_CALL_TEXT_BYTES 200

/* Whom a function answers; `to` is -1 if nobody waits. */
typedef struct tutti_reply {
    int32_t to;
    uint32_t number, room, reserved;
} tutti_reply;

/* A function that ranks start on each other: a constant of the program or of a library of it. `signature` says which types it takes
 * and gives: a rank refuses a call with another one. `run` answers each call once, before it returns or later. It may send, and may
 * not wait. */
typedef struct tutti_descriptor {
    uint64_t magic, signature;
    void (*run)(const void *arguments, size_t bytes, tutti_reply reply);
    const char *symbol;
} tutti_descriptor;

/* What is told that a call has ended: TUTTI_OK and the result, or what was wrong. `number` is the library's. */
typedef struct tutti_answer {
    void (*ended)(struct tutti_answer *answer, int status, const void *data, size_t bytes);
    uint64_t number;
} tutti_answer;

/* Takes part in the invocations of all ranks that were started together: all of them call it, in one thread each, which makes the
 * other calls too. It starts MPI unless the program has. `probe` is any descriptor of the program: where it lies in memory that can
 * be written (a program linked with -z norelro), TUTTI_ERR_FUNCTION says so at once. */
int tutti_call_init(const tutti_descriptor *probe);

/* Ends that, for all ranks, behind a meeting of them; and MPI, if tutti_call_init has started it. TUTTI_ERR_BUSY: a call is open. */
int tutti_call_quit(void);

/* The number of this rank among those that were started together, and how many they are. */
int tutti_call_rank(void);
int tutti_call_ranks(void);

/* Starts a function at a rank. Never waits: what finds no credit is kept, in order, up to 64 MiB (TUTTI_ERR_BUSY). With an answer the
 * call is open until tutti_call_progress has told it; at most 65535 are (TUTTI_ERR_BUSY). `result_bytes` is the room for its result.
 * Calls of one rank run at another in the order in which they were sent. */
int tutti_call_send(int rank, const tutti_descriptor *function, const void *arguments, size_t bytes, size_t result_bytes,
                    tutti_answer *answer);

/* From now on `to` is told instead, or nobody (NULL). TUTTI_ERR_ARG: the call is not open. */
int tutti_call_redirect(tutti_answer *answer, tutti_answer *to);

/* Answers a call: TUTTI_OK and the result, or another status and a text. Each function does so once, also one that nobody waits for.
 * TUTTI_ERR_LONG: the caller has less room, and the call can still be answered. */
int tutti_call_answer(tutti_reply reply, int status, const void *data, size_t bytes);

/* Takes what has come: runs functions, tells answers. With `wait` it waits until something comes. Gives how much it was.
 * TUTTI_ERR_BUSY: called inside a function. */
int tutti_call_progress(int wait);

/* Calls that are open here, and bytes of calls that wait for credit. */
int64_t tutti_call_open_calls(void);
int64_t tutti_call_backlog_bytes(void);

/* Comes to a meeting of all ranks, which is over when tutti_call_arrived no longer returns TUTTI_PENDING; tutti_call_progress is called
 * meanwhile. `sums` are those of all ranks when they came: calls sent, functions ended. Equal sums of two meetings that follow each
 * other, as many sent as ended, say that nothing is under way. */
int tutti_call_arrive(void);
int tutti_call_arrived(uint64_t sums[2]);

/* Ends the job with one line. */
void tutti_call_fail(const char *line);

#ifdef __cplusplus
}
#endif
#endif
