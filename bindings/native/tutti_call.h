/* tutti_call.h: functions that ranks start on each other; tutti.hpp makes it convenient from C++. Link with -ltutti.
 * Functions return TUTTI_OK, a number that is asked for, or a negative number: those of tutti.h and these. */
#ifndef TUTTI_CALL_H
#define TUTTI_CALL_H

#include <tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ERR_FUNCTION (-17) /* here: the descriptor can be written; there: the rank does not have the function; the data say what both run */
#define TUTTI_ERR_THREAD (-18)   /* another thread has called tutti_call_init */
#define TUTTI_ERR_LONG (-19)     /* arguments or result are too long; the caller has less room */
#define TUTTI_ERR_RANK (-20)     /* there is no such rank */
#define TUTTI_THREW (-21)        /* the function has ended with an exception, whose text is the data of the answer */

#define TUTTI_ERR_SERVICE (-22)  /* no service has this name */
#define TUTTI_ERR_VERSION (-23)  /* the service has no function with this signature */
#define TUTTI_ERR_DEADLINE (-24) /* the time is over; the function may have run */
#define TUTTI_ERR_LOST (-25)     /* the service has ended while the call was under way; the function may have run */

/* First word of a descriptor. */
#define TUTTI_CALL_MAGIC UINT64_C(0x5455545449434c01)
/* Bytes of arguments, and of a result, that one message has room for: all that a quick function takes and gives. */
#define TUTTI_CALL_BYTES_MAX 2048
/* Bytes of arguments, and of a result by TUTTI_CALL_LONG, at most. */
#define TUTTI_CALL_LONG_MAX 16777216
/* Bytes for which every answer has room. */
#define TUTTI_CALL_TEXT_BYTES 200

/* How a function is started: a sum of these.
 * QUICK: by a thread of the library, at once, also while its rank computes or waits elsewhere; one quick function of a rank runs at a
 * time, beside the program. It may send and answer; it neither waits nor calls tutti_call_progress (TUTTI_ERR_BUSY).
 * PACKED, without an answer: it may leave together with others to the same rank: with the next tutti_call_progress of this rank that is
 * not TUTTI_CALL_KEEP, with the next call to that rank, when a message is full, or after about half a millisecond.
 * LONG: the result may be longer than `result_bytes`, up to TUTTI_CALL_LONG_MAX; what is within them has its room reserved. */
#define TUTTI_CALL_QUICK 1
#define TUTTI_CALL_PACKED 2
#define TUTTI_CALL_LONG 4

/* Whom a function answers; `to` is -1 if nobody waits. `room` is the bytes of the answer at most, `direct` those of one message. */
typedef struct tutti_reply {
    int32_t to;
    uint32_t number, room, direct;
} tutti_reply;

/* A function that ranks start on each other: a constant of the program or of a library of it. `signature` says which types it takes
 * and gives: a rank refuses a call with another one. `run` answers each call once, before it returns or later. It may send, and may
 * not wait. `arguments` are aligned to 8 bytes, and valid until it returns. */
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
 * call is open until tutti_call_progress has told it; at most 65535 are (TUTTI_ERR_BUSY). `result_bytes` is the room for its result,
 * `flags` a sum of TUTTI_CALL_... or 0; those that do not go together are TUTTI_ERR_ARG. Calls of one rank run at another in the order
 * in which they were sent, the quick ones in an order of their own. */
int tutti_call_send(int rank, const tutti_descriptor *function, int flags, const void *arguments, size_t bytes, size_t result_bytes,
                    tutti_answer *answer);

/* From now on `to` is told instead, or nobody (NULL). TUTTI_ERR_ARG: the call is not open. */
int tutti_call_redirect(tutti_answer *answer, tutti_answer *to);

/* Answers a call: TUTTI_OK and the result, or another status and a text. Each function does so once, also one that nobody waits for.
 * TUTTI_ERR_LONG: the caller has less room, and the call can still be answered. */
int tutti_call_answer(tutti_reply reply, int status, const void *data, size_t bytes);

/* Takes what has come: runs functions, tells answers. Gives how much it was. `wait` is 1: it waits until something comes; 0: it does
 * not; TUTTI_CALL_KEEP: it does not, and packed posts stay. TUTTI_ERR_BUSY: called inside a function. */
#define TUTTI_CALL_KEEP (-1)
int tutti_call_progress(int wait);

/* Calls that are open here, and bytes of calls that wait for credit. */
int64_t tutti_call_open_calls(void);
int64_t tutti_call_backlog_bytes(void);

/* Comes to a meeting of all ranks, which is over when tutti_call_arrived no longer returns TUTTI_PENDING; tutti_call_progress is called
 * meanwhile. `sums` are those of all ranks when they came: calls sent, functions ended. Equal sums of two meetings that follow each
 * other, as many sent as ended, say that nothing is under way. */
int tutti_call_arrive(void);
int tutti_call_arrived(uint64_t sums[2]);

/* Services: functions that a process offers by a name to other processes of its cluster, in a job or not; no call of this part needs
 * MPI or tutti_call_init. Arguments, a result, and all signatures of a service together have at most TUTTI_SERVICE_BYTES_MAX bytes. */
#define TUTTI_SERVICE_BYTES_MAX 32768

/* A call while its function runs. */
typedef struct tutti_served tutti_served;

/* Runs in the thread of tutti_service_serve, and answers `call` once by tutti_service_answer. What a client sends may be anything. */
typedef void (*tutti_service_function)(void *context, const void *arguments, size_t bytes, tutti_served *call);

/* Offers a name: letters, digits and . _ -, at most 64; `whom` is NULL (this user), "user:NAME", "group:NAME" or "everybody". One
 * process of a user has the name (TUTTI_ERR_BUSY). Any number of threads may name the service, one at a time (TUTTI_ERR_BUSY). */
int tutti_service_open(const char *name, const char *whom, int64_t *service);

/* Offers a function. Its signature is one line of text, a name and then what it takes and gives: get(i64)->opt(str). A client gives
 * the same text. A service has one function of a name (TUTTI_ERR_ARG). */
int tutti_service_add(int64_t service, const char *signature, tutti_service_function run, void *context);

/* Serves clients until tutti_service_stop, or for so long at most if `at_most_ns` is not negative: how many calls there were. The
 * thread sleeps while none comes. Clients take turns, at most 16 calls each; 1024 are connected at most, 128 of one user. */
int tutti_service_serve(int64_t service, int64_t at_most_ns);

/* Ends a tutti_service_serve, of any thread, or the next one. */
int tutti_service_stop(int64_t service);

/* Gives the name back; connected clients are closed. */
int tutti_service_close(int64_t service);

/* Answers a call: TUTTI_OK and the result, or TUTTI_THREW and a text. */
int tutti_service_answer(tutti_served *call, int status, const void *data, size_t bytes);

/* The user of the client, as the kernel says. */
int64_t tutti_service_user(const tutti_served *call);

/* Connects to a service: "name" of this user, or "user/name"; of another node "name@node", or "name@*" of any. TUTTI_ERR_NODE: the
 * cluster has no such node; TUTTI_ERR_DAEMON: no daemon of this node can be asked; TUTTI_ERR_SERVICE: there is none; TUTTI_ERR_RIGHT: it is not for this
 * user, or another user has taken its name; TUTTI_ERR_BUSY: it has too many clients; TUTTI_ERR_DEADLINE: it has not let this one in. */
int tutti_client_open(const char *name, int64_t at_most_ns, int64_t *client);

/* The signatures of the service, a line each, without a zero; *bytes is the room, and then the length. */
int tutti_client_signatures(int64_t client, char *into, size_t *bytes);

/* Calls a function and waits for its end: TUTTI_OK, or TUTTI_THREW and a text in `result`; *result_bytes is the room, and then the
 * length. A service that stands still is waited for. TUTTI_ERR_VERSION, TUTTI_ERR_GONE, TUTTI_ERR_BUSY (its queue has stayed full): the
 * function has not run. TUTTI_ERR_DEADLINE, TUTTI_ERR_LOST: it may have. TUTTI_ERR_LONG: it has, and there is less room. */
int tutti_client_call(int64_t client, const char *signature, const void *arguments, size_t bytes, int64_t at_most_ns, void *result,
                      size_t *result_bytes);
int tutti_client_close(int64_t client);

/* Length of the queue of this connection: calls that were given up at their deadline and that the service has not answered yet. When
 * no more fit, a call waits for room until its own deadline, and is TUTTI_ERR_BUSY then. TUTTI_ERR_ARG: there is no such client. */
int64_t tutti_client_waiting(int64_t client);

/* Ends the job with one line. */
void tutti_call_fail(const char *line);

#ifdef __cplusplus
}
#endif
#endif
