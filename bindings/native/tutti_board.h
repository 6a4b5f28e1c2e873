/* tutti_board.h: the board of a node, read by loads. It says which job has the machine and how loaded machines and network
 * are. Link with -ltutti; nothing here calls anything but tutti_board_open, which is called once.
 *
 * A line that is read while it is written is torn: tutti_board_node and tutti_board_job return 0 then, and 1 otherwise. Times are
 * CLOCK_MONOTONIC of this node in ns; updated_ns says how old a line is. Nobody but its daemon can write the board. */
#ifndef TUTTI_BOARD_H
#define TUTTI_BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_BOARD_MAGIC UINT64_C(0x3144424954545554) /* "TUTTIBD1" */
#define TUTTI_BOARD_OF_DAEMON 1                          /* all jobs of this node, and the other nodes */
#define TUTTI_BOARD_OF_STARTER 2                         /* the own job alone; written once */
#define TUTTI_NODE_UP 1
#define TUTTI_NODE_LOST 2
#define TUTTI_JOB_RUNNING 1 /* it has the machine, or needs none */
#define TUTTI_JOB_FROZEN 2  /* it stands still while others have the machine */

typedef struct tutti_board {
    uint64_t magic, bytes, nodes_at, nodes_max, jobs_at, jobs_max, line_bytes;
    uint64_t kind;               /* TUTTI_BOARD_OF_DAEMON or TUTTI_BOARD_OF_STARTER */
    uint64_t own_node;           /* number of this node */
    uint64_t nodes;              /* lines that may say something */
    uint64_t refresh_ms;         /* how often lines of nodes are written; 0: once */
    uint64_t written_ns;         /* when they were last */
    uint64_t congested_until_ns; /* the network of this node counts as congested until then; past or 0: it is not */
    uint64_t running_at;         /* lines of tutti_board_running; 0: a board of an earlier release has none */
} tutti_board;

typedef struct tutti_board_node_line {
    uint64_t updated_ns;
    uint64_t state; /* TUTTI_NODE_UP, TUTTI_NODE_LOST; 0: nothing is known */
    uint64_t cores;
    uint64_t runnable;   /* threads that run or wait for a core */
    uint64_t load_milli; /* their mean number over a minute, in thousandths */
    uint64_t memory_bytes, memory_available_bytes;
    uint64_t memory_pressure; /* share of 10 s in which somebody waited for memory, in 1/100 % */
    uint64_t bytes_in_s, bytes_out_s, dropped_s, retransmitted_s;
    uint64_t generation;
    uint64_t jobs; /* jobs that run there */
} tutti_board_node_line;

typedef struct tutti_board_job_line {
    uint64_t updated_ns;
    uint64_t job_plus_1; /* number of the job plus 1; 0: the line is free */
    uint64_t state;      /* TUTTI_JOB_RUNNING or TUTTI_JOB_FROZEN */
    uint64_t since_ns;
    uint64_t frozen_ns_total, thaw_count; /* how long it stood still before that, and how often it went on */
    uint64_t slice_end_ns;                /* 0: nobody waits for its end */
    uint64_t generation;
    uint64_t ranks; /* on this node */
    uint64_t rest[5];
} tutti_board_job_line;

typedef struct tutti_board_running_line {
    uint64_t updated_ns;
    uint64_t jobs;           /* how many had the node's processors; more than are named if there was no room */
    uint64_t job_plus_1[12]; /* number of each plus 1; 0 behind the last one */
} tutti_board_running_line;

/* The board of this node, mapped until the process ends; null if there is none. */
const tutti_board *tutti_board_open(void);

/* One word: an aligned load of 8 bytes is never torn. */
static inline uint64_t tutti_board_word(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Copies a line at a distance from the beginning; 0: it is torn. */
static inline int tutti_board_line(const tutti_board *board, uint64_t at, uint64_t *words)
{
    const uint64_t *line = (const uint64_t *)(const void *)((const char *)board + at);
    uint64_t count = __atomic_load_n(&line[15], __ATOMIC_ACQUIRE);
    for (int word = 0; word < 14; word++)
        words[word] = __atomic_load_n(&line[1 + word], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&line[0], __ATOMIC_RELAXED) == count;
}

/* The line of a node, by its number. */
static inline int tutti_board_node(const tutti_board *board, uint64_t node, tutti_board_node_line *line)
{
    return node < board->nodes_max && tutti_board_line(board, board->nodes_at + node * board->line_bytes, (uint64_t *)(void *)line);
}

/* The jobs that had the processors of a node, by its number, when its line was measured; 0: torn, or there is no such line. */
static inline int tutti_board_running(const tutti_board *board, uint64_t node, tutti_board_running_line *line)
{
    return node < board->nodes_max && board->running_at
           && tutti_board_line(board, board->running_at + node * board->line_bytes, (uint64_t *)(void *)line);
}

/* A line of a job, by place from 0 to jobs_max - 1. */
static inline int tutti_board_job(const tutti_board *board, uint64_t place, tutti_board_job_line *line)
{
    return place < board->jobs_max && tutti_board_line(board, board->jobs_at + place * board->line_bytes, (uint64_t *)(void *)line);
}

#ifdef __cplusplus
}
#endif
#endif
