/* tutti/parmacs.h: PARMACS macros for programs that share memory on many nodes. Compile with tutticc, start with
 * `tutti run -N NODES -n NODES`. A source whose name ends with .c.in or .C goes through m4 first and includes this by
 * MAIN_ENV or EXTERN_ENV; any other C source includes it itself.
 *
 * Bodies supply their own semicolons: a macro stands as a statement or a declaration, with or without one behind it. */
#ifndef TUTTI_PARMACS_H
#define TUTTI_PARMACS_H

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
void tutti_dsm_barrier(uint64_t barrier, long count, const char *file, unsigned line);
void *tutti_dsm_malloc(size_t bytes, const char *file, unsigned line);
void tutti_dsm_free(void *address, const char *file, unsigned line);
void tutti_dsm_create(void (*function)(void), long count, const char *file, unsigned line);
void tutti_dsm_wait_for_end(const char *file, unsigned line);
uint64_t tutti_dsm_clock(void);

/* Pages in bulk. Runs are in private memory; allocation fills in where each begins. */
typedef struct tutti_pages {
    void *start;
    size_t bytes;
} tutti_pages;
enum { TUTTI_PAGES_ALLOCATE = 1, TUTTI_PAGES_FREE = 2, TUTTI_PAGES_INVALIDATE = 3 };
enum { TUTTI_PAGES_4K = 0, TUTTI_PAGES_2M = 1 };
void tutti_dsm_pages(int operation, tutti_pages *runs, size_t count, unsigned attributes, const char *file, unsigned line);

#ifdef __cplusplus
}
#endif

/* A lock, barrier or pause: made by its INIT, in shared or private memory. */
typedef struct tutti_object {
    uint64_t word;
} tutti_object;

/* The program. */
#define MAIN_ENV
#define EXTERN_ENV
#define ENV
#define MAIN_INITENV(...)
#define INITENV(...)
#define MAIN_END { exit(0); }

/* Processes: CREATE(function, n) runs the function in n processes, the caller's among them; CREATE(function) in one more. */
#define CREATE(...) TUTTI_CREATE(__VA_ARGS__, 0, 0)
#define TUTTI_CREATE(function, count, ...) \
    { tutti_dsm_create((void (*)(void))(function), (long)(count), __FILE__, __LINE__); }
#define WAIT_FOR_END(...) { tutti_dsm_wait_for_end(__FILE__, __LINE__); }

/* Memory. */
#define G_MALLOC(bytes) tutti_dsm_malloc((size_t)(bytes), __FILE__, __LINE__);
#define G_FREE(...) TUTTI_FREE(__VA_ARGS__, 0)
#define TUTTI_FREE(address, ...) { tutti_dsm_free((void *)(address), __FILE__, __LINE__); }
#define G_PAGES(operation, runs, count, attributes) \
    { tutti_dsm_pages(operation, runs, (size_t)(count), attributes, __FILE__, __LINE__); }
#define NU_MALLOC(bytes) malloc((size_t)(bytes));
#define NU_FREE(...) TUTTI_NU_FREE(__VA_ARGS__, 0)
#define TUTTI_NU_FREE(address, ...) { free((void *)(address)); }

/* Locks. */
#define LOCKDEC(lock) tutti_object lock;
#define LOCKINIT(lock) { (lock).word = tutti_dsm_make(1, __FILE__, __LINE__); }
#define LOCK(lock) { tutti_dsm_lock((lock).word, __FILE__, __LINE__); }
#define UNLOCK(lock) { tutti_dsm_unlock((lock).word, __FILE__, __LINE__); }
#define ALOCKDEC(locks, count) tutti_object locks[count];
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
#define BARDEC(barrier) tutti_object barrier;
#define BARINIT(...) TUTTI_BARINIT(__VA_ARGS__, 0)
#define TUTTI_BARINIT(barrier, ...) { (barrier).word = tutti_dsm_make(2, __FILE__, __LINE__); }
#define BARRIER(barrier, count) { tutti_dsm_barrier((barrier).word, (long)(count), __FILE__, __LINE__); }

/* Pauses: flags that stay set. */
#define PAUSEDEC(pause) tutti_object pause;
#define PAUSEINIT(pause) { (pause).word = tutti_dsm_make(3, __FILE__, __LINE__); }
#define SETPAUSE(pause) { tutti_dsm_set((pause).word, __FILE__, __LINE__); }
#define CLEARPAUSE(pause) { tutti_dsm_clear((pause).word, __FILE__, __LINE__); }
#define WAITPAUSE(pause) { tutti_dsm_wait((pause).word, __FILE__, __LINE__); }

/* Microseconds since 1970. */
#define CLOCK(time) { (time) = tutti_dsm_clock(); }

#endif
