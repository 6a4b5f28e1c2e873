/* tutti/parmacs.h: PARMACS macros for programs that share memory on many nodes. Compile with tutticc, start with
 * `tutti run -N NODES -n NODES`. A source whose name ends with .c.in or .C goes through m4 first and includes this by
 * MAIN_ENV or EXTERN_ENV; any other C source includes it itself.
 *
 * Bodies supply their own semicolons: a macro stands as a statement or a declaration, with or without one behind it. */
#ifndef TUTTI_PARMACS_H
#define TUTTI_PARMACS_H

#include <tutti/parmacs_declarations.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t tutti_dsm_make(int kind, const char *file, unsigned line);
void tutti_dsm_lock(uint64_t lock, const char *file, unsigned line);
void tutti_dsm_unlock(uint64_t lock, const char *file, unsigned line);
void tutti_dsm_set(uint64_t flag, const char *file, unsigned line);
void tutti_dsm_clear(uint64_t flag, const char *file, unsigned line);
void tutti_dsm_wait(uint64_t flag, const char *file, unsigned line);
void tutti_dsm_condition_wait(void *variable, uint64_t lock, const char *file, unsigned line);
void tutti_dsm_condition_wake(void *variable, int are_all, const char *file, unsigned line);
void tutti_dsm_barrier(uint64_t barrier, long count, const char *file, unsigned line);
void *tutti_dsm_malloc(size_t bytes, const char *file, unsigned line);
void tutti_dsm_free(void *address, const char *file, unsigned line);
void tutti_dsm_create(void (*function)(void), long count, const char *file, unsigned line);
void tutti_dsm_create_with(void (*function)(void *), void *argument, const char *file, unsigned line);
int tutti_dsm_process(const char *file, unsigned line);
void tutti_dsm_wait_for_end(const char *file, unsigned line);
uint64_t tutti_dsm_clock(void);

/* Pages in bulk. Runs are in private memory; allocation fills in where each begins. */
typedef struct tutti_pages {
    void *start;
    size_t bytes;
} tutti_pages;
enum { TUTTI_PAGES_ALLOCATE = 1, TUTTI_PAGES_FREE = 2, TUTTI_PAGES_INVALIDATE = 3 };
enum { TUTTI_PAGES_4K = 0, TUTTI_PAGES_2M = 1, TUTTI_PAGES_UPDATE = 2 };
void tutti_dsm_pages(int operation, tutti_pages *runs, size_t count, unsigned attributes, const char *file, unsigned line);
void *tutti_dsm_malloc_update(size_t bytes, const char *file, unsigned line);

#ifdef __cplusplus
}
#endif

/* The program. */
#define MAIN_ENV
#define EXTERN_ENV
#define ENV
#define MAIN_INITENV(...)
#define INITENV(...)
#define MAIN_END { exit(0); }
#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif

/* Where the part begins that a simulator measures, and where it ends: nothing. */
#define SPLASH3_ROI_BEGIN(...)
#define SPLASH3_ROI_END(...)
#define SPLASH4_ROI_BEGIN(...)
#define SPLASH4_ROI_END(...)

/* Processes: CREATE(function, n) runs the function in n processes, the caller's among them; CREATE(function) in one more. */
#define CREATE(...) TUTTI_CREATE(__VA_ARGS__, 0, 0)
#define TUTTI_CREATE(function, count, ...) \
    { tutti_dsm_create((void (*)(void))(function), (long)(count), __FILE__, __LINE__); }
/* In one more process, which gets the argument that this line has there. */
#define CREATE_WITH_ARG(function, argument) \
    { tutti_dsm_create_with((void (*)(void *))(function), (void *)(argument), __FILE__, __LINE__); }
/* The number of this process, in the order in which they ask: 0 is the first. */
#define GET_PID(number) { (number) = tutti_dsm_process(__FILE__, __LINE__); }
#define WAIT_FOR_END(...) { tutti_dsm_wait_for_end(__FILE__, __LINE__); }

/* Memory. What follows the number of bytes (a processor near it) is a hint that is not used. */
#define G_MALLOC(...) TUTTI_MALLOC(__VA_ARGS__, 0)
#define TUTTI_MALLOC(bytes, ...) tutti_dsm_malloc((size_t)(bytes), __FILE__, __LINE__);
#define G_MALLOC_UPDATE(bytes) tutti_dsm_malloc_update((size_t)(bytes), __FILE__, __LINE__);
#define G_FREE(...) TUTTI_FREE(__VA_ARGS__, 0)
#define TUTTI_FREE(address, ...) { tutti_dsm_free((void *)(address), __FILE__, __LINE__); }
#define G_PAGES(operation, runs, count, attributes) \
    { tutti_dsm_pages(operation, runs, (size_t)(count), attributes, __FILE__, __LINE__); }
#define G_MALLOC_F(...) TUTTI_MALLOC_F(__VA_ARGS__, 0)
#define TUTTI_MALLOC_F(bytes, ...) tutti_dsm_malloc((size_t)(bytes), __FILE__, __LINE__)
/* The same, from the memory near a processor where there is such. */
#define NU_MALLOC(...) TUTTI_MALLOC(__VA_ARGS__, 0)
#define NU_MALLOC_F(...) TUTTI_MALLOC_F(__VA_ARGS__, 0)
#define NU_FREE(...) TUTTI_FREE(__VA_ARGS__, 0)

/* Locks. */
#define LOCKINIT(lock) { (lock).word = tutti_dsm_make(1, __FILE__, __LINE__); }
#define LOCK(lock) { tutti_dsm_lock((lock).word, __FILE__, __LINE__); }
#define UNLOCK(lock) { tutti_dsm_unlock((lock).word, __FILE__, __LINE__); }
#define ALOCKINIT(locks, count) \
    { \
        int tutti_lock; \
        for (tutti_lock = 0; tutti_lock < (count); tutti_lock++) \
            (locks)[tutti_lock].word = tutti_dsm_make(1, __FILE__, __LINE__); \
    }
#define ALOCK(locks, which) { tutti_dsm_lock((locks)[which].word, __FILE__, __LINE__); }
#define AULOCK(locks, which) { tutti_dsm_unlock((locks)[which].word, __FILE__, __LINE__); }
#define AGETL(locks, which) ((locks)[which])

/* Barriers. */
#define BARINIT(...) TUTTI_BARINIT(__VA_ARGS__, 0)
#define TUTTI_BARINIT(barrier, ...) { (barrier).word = tutti_dsm_make(2, __FILE__, __LINE__); }
#define BARRIER(barrier, count) { tutti_dsm_barrier((barrier).word, (long)(count), __FILE__, __LINE__); }

/* Pauses: flags that stay set. */
#define PAUSEINIT(pause) { (pause).word = tutti_dsm_make(3, __FILE__, __LINE__); }
#define SETPAUSE(pause) { tutti_dsm_set((pause).word, __FILE__, __LINE__); }
#define CLEARPAUSE(pause) { tutti_dsm_clear((pause).word, __FILE__, __LINE__); }
#define WAITPAUSE(pause) { tutti_dsm_wait((pause).word, __FILE__, __LINE__); }

/* Condition variables, in shared memory: a wait gives the lock back, and takes it again when it is over. */
#define CONDVARINIT(variable) { (variable).word = tutti_dsm_make(4, __FILE__, __LINE__); }
#define CONDVARWAIT(variable, lock) { tutti_dsm_condition_wait(&(variable), (lock).word, __FILE__, __LINE__); }
#define CONDVARSIGNAL(variable) { tutti_dsm_condition_wake(&(variable), 0, __FILE__, __LINE__); }
#define CONDVARBCAST(variable) { tutti_dsm_condition_wake(&(variable), 1, __FILE__, __LINE__); }

/* Fences order what one process does. Between processes locks, barriers, pauses and condition variables do. */
#define RELEASE_FENCE(...) { __atomic_thread_fence(__ATOMIC_RELEASE); }
#define ACQUIRE_FENCE(...) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
#define FULL_FENCE(...) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* Microseconds since 1970. */
#define CLOCK(time) { (time) = tutti_dsm_clock(); }

/* Names that other sets of macros have, in sources that go through m4: the same, and private memory. What the
 * program defines itself stays. */
#ifdef TUTTI_OTHER_SETS
#ifndef MALLOC
#define MALLOC(bytes) malloc(bytes);
#endif
#ifndef ACQUIRE
#define ACQUIRE(lock) LOCK(lock)
#define RELEASE(lock) UNLOCK(lock)
#endif
#ifndef AACQUIRE
#define AACQUIRE(locks, which) ALOCK(locks, which)
#define ARELEASE(locks, which) AULOCK(locks, which)
#endif
#ifndef CVDEC
#define CVDEC(variable) CONDVARDEC(variable)
#define CVINIT(variable) CONDVARINIT(variable)
#define CVWAIT(variable, lock) CONDVARWAIT(variable, lock)
#define CVSIGNALONE(variable) CONDVARSIGNAL(variable)
#define CVSIGNALALL(variable) CONDVARBCAST(variable)
#endif
#endif

#endif
