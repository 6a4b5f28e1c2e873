/* The board as a rank reads it: its own job runs, sets are whole, and nobody can write it. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tutti_board.h>

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* What a word costs, in hundredths of a nanosecond: printed, no test. */
static unsigned long cost(const uint64_t *word)
{
    enum { LOOKS = 20000000 };
    uint64_t sum = 0, begin = now_ns();
    for (int i = 0; i < LOOKS; i++)
        sum += tutti_board_word(word);
    uint64_t passed = now_ns() - begin;
    return sum == 1 ? 0 : (unsigned long)(passed * 100 / LOOKS);
}

int main(int argc, char **argv)
{
    const char *expected = argc > 1 ? argv[1] : "daemon";
    int rank, failures = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const tutti_board *board = tutti_board_open();
    if (!board) {
        fprintf(stderr, "there is no board\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    int is_daemon = board->kind == TUTTI_BOARD_OF_DAEMON;
    if (board->magic != TUTTI_BOARD_MAGIC || is_daemon != (strcmp(expected, "daemon") == 0)) {
        fprintf(stderr, "magic %llx, kind %llu\n", (unsigned long long)board->magic, (unsigned long long)board->kind);
        failures++;
    }
    tutti_board_node_line node;
    int whole = 0, found = 0;
    for (int i = 0; i < 1000 && !whole; i++)
        whole = tutti_board_node(board, board->own_node, &node);
    if (!whole || node.state != TUTTI_NODE_UP || node.cores == 0 || node.updated_ns > now_ns()) {
        fprintf(stderr, "node: whole %d, state %llu\n", whole, (unsigned long long)node.state);
        failures++;
    }
    if (is_daemon && (node.memory_bytes == 0 || now_ns() - node.updated_ns > UINT64_C(60000000000)))
        failures++;
    /* Who has the board cannot make it writable. */
    if (mprotect((void *)(uintptr_t)board, 4096, PROT_READ | PROT_WRITE) == 0) {
        fprintf(stderr, "the board can be written\n");
        failures++;
    }
    for (int i = 0; i < 10000 && !found; i++) {
        tutti_board_job_line job;
        for (uint64_t place = 0; place < board->jobs_max; place++)
            found |= tutti_board_job(board, place, &job) && job.job_plus_1 != 0 && job.state == TUTTI_JOB_RUNNING;
        if (!found)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    if (!found) {
        fprintf(stderr, "no job runs\n");
        failures++;
    }
    unsigned long price = cost(&board->written_ns);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0 && failures == 0)
        printf("board: ok\nboard: a word takes %lu.%02lu ns\n", price / 100, price % 100);
    return failures != 0;
}
