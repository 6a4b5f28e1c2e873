/* tutti/parmacs_declarations.h: the PARMACS macros that declare. Without headers of the system: a source that
 * has gone through m4 begins with it, before what it defines for them, and may declare in headers of its own
 * before its ENV. */
#ifndef TUTTI_PARMACS_DECLARATIONS_H
#define TUTTI_PARMACS_DECLARATIONS_H

/* A lock, barrier or pause: made by its INIT, in shared or private memory. A condition variable: in shared
 * memory. */
typedef struct tutti_object {
    __UINT64_TYPE__ word;
} tutti_object;

#define LOCKDEC(lock) tutti_object lock;
#define ALOCKDEC(locks, count) tutti_object locks[count];
#define BARDEC(barrier) tutti_object barrier;
#define PAUSEDEC(pause) tutti_object pause;
#define CONDVARDEC(variable) tutti_object variable;

#endif
