/*
 * A rank that moves by itself: a worker adds up what a client sends it, looks at the board now and then, and
 * moves to a node that is less loaded. It starts a successor there, hands over its state and the messages that
 * wait for it, and leaves. Nothing of the system decides that, and nobody else has to know: the client
 * connects to the successor.
 *
 *   tutti run -N 3 -n 3 --universe 12 ./move [numbers] [moves]
 *
 * With `moves` the worker moves so often whatever the board says, node by node, and gets numbers until then.
 * No number is lost, doubled or out of order: the sum depends on the order.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_board.h>

enum { WORK, MOVES, LAST, PORT, STATE, QUEUE, STOP, RESULT };
enum { PERIOD = 100, WAITING_MAX = 100000 };

typedef struct {
    int64_t count, sum, moves, wanted, places; /* places: a bit for each node where it has been */
} state;

static void add(state *state, int64_t number) {
    state->count++;
    state->sum = (state->sum * 31 + number) % 1000000007;
}

/* The node to move to; -1: stay. */
static int64_t better_node(state *state) {
    const tutti_board *board = tutti_board_open();
    tutti_board_node_line line, own;
    int64_t best = -1;
    uint64_t least;
    if (!board || !tutti_board_node(board, board->own_node, &own))
        return -1;
    state->places |= INT64_C(1) << (board->own_node & 63);
    /* A board that has just begun may not name the others yet. */
    if (state->wanted > 0)
        return state->moves < state->wanted && board->nodes > 1 ? (int64_t)((board->own_node + 1) % board->nodes) : -1;
    /* It pays if more than one thread waits here than would there. */
    least = own.runnable > own.cores + 1 ? own.runnable - own.cores - 1 : 0;
    for (uint64_t node = 0; node < board->nodes; node++) {
        if (node == board->own_node || !tutti_board_node(board, node, &line) || line.state != TUTTI_NODE_UP)
            continue;
        if (line.runnable < least) {
            best = (int64_t)node;
            least = line.runnable;
        }
    }
    return best;
}

/* Starts the successor, hands over, leaves. */
static void move_to(int64_t node, state *state, MPI_Comm client, char *program) {
    static int64_t waiting[WAITING_MAX];
    int count = 0;
    char port[MPI_MAX_PORT_NAME], host[32];
    MPI_Status status;
    MPI_Comm successor;
    MPI_Info info;

    MPI_Send(NULL, 0, MPI_BYTE, 0, MOVES, client);
    for (;;) { /* what the client has sent before it knew */
        MPI_Recv(&waiting[count], 1, MPI_INT64_T, 0, MPI_ANY_TAG, client, &status);
        if (status.MPI_TAG == LAST)
            break;
        /* An end that the successor gets anew is no number. */
        count += status.MPI_TAG == WORK && count < WAITING_MAX - 1;
    }
    snprintf(host, sizeof host, "node%d", (int)node);
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", host);
    MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_SELF, &successor, MPI_ERRCODES_IGNORE);
    state->moves++;
    MPI_Send(state, sizeof *state / sizeof(int64_t), MPI_INT64_T, 0, STATE, successor);
    MPI_Send(waiting, count, MPI_INT64_T, 0, QUEUE, successor);
    MPI_Recv(port, sizeof port, MPI_CHAR, 0, PORT, successor, MPI_STATUS_IGNORE);
    MPI_Send(port, (int)strlen(port) + 1, MPI_CHAR, 0, PORT, client);
    MPI_Comm_disconnect(&successor);
    MPI_Info_free(&info);
}

/* Takes over from the one that has started this process; gives its client. */
static MPI_Comm take_over(state *state, MPI_Comm before) {
    static int64_t waiting[WAITING_MAX];
    char port[MPI_MAX_PORT_NAME];
    int count;
    MPI_Status status;
    MPI_Comm client;

    MPI_Recv(waiting, WAITING_MAX, MPI_INT64_T, 0, QUEUE, before, &status);
    MPI_Get_count(&status, MPI_INT64_T, &count);
    for (int number = 0; number < count; number++)
        add(state, waiting[number]);
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Send(port, (int)strlen(port) + 1, MPI_CHAR, 0, PORT, before);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &client);
    MPI_Close_port(port);
    return client;
}

static void work(MPI_Comm before, char *program) {
    state state;
    int64_t number, node = -1;
    MPI_Status status;
    MPI_Comm client = before;

    MPI_Recv(&state, sizeof state / sizeof(int64_t), MPI_INT64_T, 0, STATE, before, MPI_STATUS_IGNORE);
    if (state.moves > 0) {
        client = take_over(&state, before);
        MPI_Comm_disconnect(&before);
    }
    while (node < 0) {
        MPI_Recv(&number, 1, MPI_INT64_T, 0, MPI_ANY_TAG, client, &status);
        if (status.MPI_TAG == STOP) {
            MPI_Send(&state, sizeof state / sizeof(int64_t), MPI_INT64_T, 0, RESULT, client);
            break;
        }
        add(&state, number);
        if (state.count % PERIOD == 0)
            node = better_node(&state);
    }
    if (node >= 0)
        move_to(node, &state, client, program);
    MPI_Comm_disconnect(&client);
}

/* The worker moves if it has said so: the rest goes to its successor. Gives how often that was. */
static int follow(MPI_Comm *worker) {
    int moves;
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm next;
    MPI_Iprobe(0, MOVES, *worker, &moves, MPI_STATUS_IGNORE);
    if (!moves)
        return 0;
    MPI_Recv(NULL, 0, MPI_BYTE, 0, MOVES, *worker, MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, MPI_INT64_T, 0, LAST, *worker);
    MPI_Recv(port, sizeof port, MPI_CHAR, 0, PORT, *worker, MPI_STATUS_IGNORE);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &next);
    MPI_Comm_disconnect(worker);
    *worker = next;
    return 1;
}

int main(int argc, char **argv) {
    MPI_Comm worker;
    int wrong = 0, rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&worker);
    if (worker != MPI_COMM_NULL) {
        work(worker, argv[0]);
    } else if (rank == 0) { /* the others only hold their nodes for the job */
        int64_t numbers = argc > 1 ? atoll(argv[1]) : 10000, number, moves = 0;
        state begin = {0, 0, 0, argc > 2 ? atoll(argv[2]) : 0, 0}, expected = begin, end;
        MPI_Status status;
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &worker, MPI_ERRCODES_IGNORE);
        MPI_Send(&begin, sizeof begin / sizeof(int64_t), MPI_INT64_T, 0, STATE, worker);
        for (number = 1; number <= numbers || moves < begin.wanted; number++) {
            moves += follow(&worker);
            MPI_Send(&number, 1, MPI_INT64_T, 0, WORK, worker);
            add(&expected, number);
        }
        for (;;) { /* it may be about to move, and then its successor gets the end */
            MPI_Send(&number, 1, MPI_INT64_T, 0, STOP, worker);
            MPI_Probe(0, MPI_ANY_TAG, worker, &status);
            if (status.MPI_TAG == RESULT)
                break;
            follow(&worker);
        }
        MPI_Recv(&end, sizeof end / sizeof(int64_t), MPI_INT64_T, 0, RESULT, worker, MPI_STATUS_IGNORE);
        wrong = end.count != expected.count || end.sum != expected.sum;
        printf("%lld numbers, %lld moves over %d nodes: the sum is %s\n", (long long)end.count, (long long)end.moves,
               __builtin_popcountll((unsigned long long)end.places), wrong ? "WRONG" : "as expected");
        MPI_Comm_disconnect(&worker);
    }
    MPI_Finalize();
    return wrong;
}
