/* shmem.h of Tutti @VERSION@: OpenSHMEM 1.5. Generated from bindings/shmem. */

#ifndef TUTTI_SHMEM_H
#define TUTTI_SHMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Complex numbers of C, in C++ too: std::complex has the same layout. */
#ifdef __GNUC__
__extension__ typedef float _Complex tutti_complexf;
__extension__ typedef double _Complex tutti_complexd;
#else
typedef float _Complex tutti_complexf;
typedef double _Complex tutti_complexd;
#endif

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_VENDOR_STRING "Tutti @VERSION@"

/* Names of Sandia's header, which has all of 1.5 too. Programs that know headers by such names, as shmem4py does, take
   a header without them for one that lacks what 1.4 and 1.5 have, and define it themselves. */
#define SHMEM_DEF_H
#define SHMEM_FUNCTION_ATTRIBUTES

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_GT 3
#define SHMEM_CMP_GE 4
#define SHMEM_CMP_LT 5
#define SHMEM_CMP_LE 6

#define SHMEM_SIGNAL_SET 0
#define SHMEM_SIGNAL_ADD 1

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

/* Handles are numbers; one that was destroyed never comes back. */
typedef struct tutti_shmem_team *shmem_team_t;
typedef struct tutti_shmem_ctx *shmem_ctx_t;

#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2)
#define SHMEM_TEAM_NUM_CONTEXTS 1L

typedef struct {
    int num_contexts;
} shmem_team_config_t;

#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L

/* Work arrays of the deprecated collective operations: they are not used, so any size is enough. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 1
#define SHMEM_BARRIER_SYNC_SIZE 1
#define SHMEM_BCAST_SYNC_SIZE 1
#define SHMEM_REDUCE_SYNC_SIZE 1
#define SHMEM_COLLECT_SYNC_SIZE 1
#define SHMEM_ALLTOALL_SYNC_SIZE 1
#define SHMEM_ALLTOALLS_SYNC_SIZE 1
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Deprecated names. */
#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE

@PROTOTYPES@

#ifdef __cplusplus
}

@OVERLOADS@
static inline int shmem_sync(shmem_team_t team) { return shmem_team_sync(team); }

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

/* One name for all types: the first pointer chooses. */
#define TUTTI_FIRST(first, ...) first
#define TUTTI_SECOND(first, second, ...) second
void tutti_no_such_type(void);
@SELECTIONS@
#define TUTTI_FIFTH(first, second, third, fourth, fifth, ...) fifth
#define shmem_sync(...) \
    TUTTI_FIFTH(__VA_ARGS__, shmem_sync, shmem_sync, shmem_sync, shmem_team_sync, shmem_sync)(__VA_ARGS__)

#endif

#endif
