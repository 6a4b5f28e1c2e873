/* tutti.h: the native interface of Tutti, beside MPI and OpenSHMEM: the program has started one of them. Link with -ltutti.
 * Functions return TUTTI_OK or a negative number. */
#ifndef TUTTI_H
#define TUTTI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_OK 0
#define TUTTI_ERR_ARG (-1)     /* an argument is wrong */
#define TUTTI_ERR_RUNNING (-2) /* nothing has been started, or all has ended */

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

/* Says how many steps this rank has made, and how many a mate may be behind before waits for it stop to spin. */
int tutti_progress(uint64_t steps, uint64_t patience);

/* A parallel phase begins (OpenMP: on the master, before the region) and ends. In a job of `tutti run --phases` the first waits until
 * the parallel slots of the node are this job's; alone it is one load. Anywhere else both do nothing, also before MPI_Init and after
 * MPI_Finalize. Phases of several threads overlap: the slots are given back when the last has ended. */
void tutti_parallel_begin(void);
void tutti_parallel_end(void);

#ifdef __cplusplus
}
#endif
#endif
