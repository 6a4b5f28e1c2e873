/*
 * Ranks that evade: all compute in steps, behind each of which they add up their parts, so the slowest one
 * holds up the others. Now and then they look at the board. A rank whose node is filled by others moves, with
 * its rank in MPI_COMM_WORLD, to a node where it would have more of a core. Nothing of the system decides
 * that.
 *
 *   tutti run -N 3 -n 3 --universe 12 ./evade [steps] [moves]
 *
 * A move must save at least twice what the last one has cost, and all of them together may cost a tenth of
 * the time so far: whatever the nodes do, that is what moving can lose. With `moves` ranks move so often whatever
 * the board says.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <tutti_board.h>
#include <tutti_move.h>

enum { PERIOD = 20, WORK = 200000 };

typedef struct {
    int64_t step, moves, wanted;
    double value, sum;             /* of this rank; of all */
    double began, left, cost, cost_last; /* when it began, when the last move did, and what moves cost: s at rank 0 */
} state;

/* Of the day: nodes agree about it, roughly. */
static double seconds(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* A step of this rank: its value afterwards. */
static double compute(double value) {
    for (int i = 0; i < WORK; i++)
        value = value * 0.999999 + 0.25;
    return value;
}

/* How much of a core a thread has where so many want one. */
static double share(const tutti_board_node_line *line, uint64_t more) {
    double threads = (double)(line->runnable + more);
    return threads > (double)line->cores ? (double)line->cores / threads : 1;
}

/* The seconds that this rank's best move would save, and where to; 0: it stays. */
static double look(const state *state, double left_s, int64_t *best) {
    const tutti_board *board = tutti_board_open();
    tutti_board_node_line own, line;
    double gain = 0;
    *best = -1;
    if (!board || !tutti_board_node(board, board->own_node, &own))
        return 0;
    for (uint64_t node = 0; node < board->nodes; node++) {
        double saved;
        if (node == board->own_node || !tutti_board_node(board, node, &line) || line.state != TUTTI_NODE_UP)
            continue;
        saved = state->wanted ? 1 : left_s * (1 - share(&own, 0) / share(&line, 1));
        if (saved > gain) {
            gain = saved;
            *best = (int64_t)node;
        }
    }
    return gain;
}

/* Behind a move, also in the successor: what it has cost. */
static void arrive(state *state) {
    double now = seconds();
    MPI_Bcast(&now, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    state->cost_last = now - state->left;
    state->cost += state->cost_last;
}

/* All ranks look at the board; the one that gains most moves. */
static void move_if_it_pays(state *state, int64_t steps, int rank, int size) {
    struct {
        double gain;
        int rank;
    } mine, most;
    double now = seconds(), spent;
    int64_t node, forced = state->moves < state->wanted;
    char name[32];
    int moved;

    MPI_Bcast(&now, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    spent = now - state->began;
    mine.gain = look(state, spent / (double)state->step * (double)(steps - state->step), &node);
    mine.rank = rank;
    if (state->wanted) {
        int is_next = forced && rank == state->moves % size;
        /* A board that has just begun does not name the other nodes yet. */
        while (is_next && (mine.gain = look(state, 1, &node)) <= 0)
            thrd_sleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        mine.gain = is_next;
    }
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    if (most.gain <= 0)
        return;
    if (!forced && (most.gain < 2 * state->cost_last || state->cost + state->cost_last > spent / 10))
        return;
    state->moves++;
    state->left = now;
    sprintf(name, "node%d", (int)node);
    moved = most.rank == rank ? tutti_move(name, state, sizeof *state) : tutti_move(NULL, NULL, 0);
    if (moved < 0) {
        if (rank == 0)
            fprintf(stderr, "no move: %s\n", tutti_move_refusal());
        state->moves--;
        state->wanted = 0;
    }
    arrive(state);
}

int main(int argc, char **argv) {
    int64_t steps = argc > 1 ? atoll(argv[1]) : 2000;
    state state = {0};
    const void *before;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    before = tutti_moved(NULL);
    if (before) {
        memcpy(&state, before, sizeof state);
        arrive(&state);
    } else {
        state.wanted = argc > 2 ? atoll(argv[2]) : 0;
        state.value = rank;
        state.cost_last = 0.1; /* a guess, before the first one */
        state.began = seconds();
        MPI_Bcast(&state.began, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    while (state.step < steps) {
        state.value = compute(state.value);
        MPI_Allreduce(&state.value, &state.sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        state.value += state.sum / size / 1000;
        if (++state.step % PERIOD == 0 && state.step < steps)
            move_if_it_pays(&state, steps, rank, size);
    }
    if (rank == 0)
        printf("%lld steps, %lld moves: the sum is %.9g\n", (long long)state.step, (long long)state.moves, state.sum);
    MPI_Finalize();
    return 0;
}
