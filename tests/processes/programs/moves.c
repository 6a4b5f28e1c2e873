/* Ranks that move by themselves.
 *
 *   moves ring MOVES NODES    messages between all pairs, numbered, some of which wait over each move; one rank after the
 *                             other moves, node by node, until there were so many moves
 *   moves all TIMES NODES     all ranks move at once, so often
 *   moves comms MOVES NODES   communicators of all kinds, with messages that wait in each, over each move; their handles
 *                             stand in the state
 *   moves whole TEXT          the process cannot move, because of TEXT: threads, the checker
 *   moves refused             what a rank has that cannot move: named, nobody moves, all go on
 *   moves gone                a program that is not there any more
 *   moves status N            a rank that has moved ends with a status
 *   moves killed WHO          "successor": one that has moved is killed; "mover": one that is about to move, some time
 *   moves large BYTES         a state of so many bytes
 */
#define _GNU_SOURCE
#include "../../mpi/programs/require.h"
#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <tutti.h>
#include <tutti_call.h>
#include <tutti_move.h>
#include <unistd.h>

enum { RANKS_MAX = 8, WORDS_MAX = 1000 };

typedef struct {
    int64_t round, moves;
    int64_t sent[RANKS_MAX], got[RANKS_MAX]; /* to each rank, from each rank */
} state;

/* Communicators by their place in the state. */
enum { ROW, COLUMN, GRID, GRAPH, INTER, OWN, COMMS };

typedef struct {
    int64_t moves;
    int64_t sent[COMMS][RANKS_MAX], got[COMMS][RANKS_MAX]; /* to each peer, from each peer */
    MPI_Comm comms[COMMS];
    MPI_Group row;
    MPI_Datatype strip, record; /* of a matrix of 3 x 4; of a record */
} comms_state;

static int rank, size;

static void name_node(char *name, int64_t node, int64_t nodes) {
    if (nodes < 1) /* the own one, by its name */
        snprintf(name, 32, "%s", getenv("TUTTI_NODE") ? getenv("TUTTI_NODE") : "node0");
    else if (nodes < 2)
        strcpy(name, "localhost");
    else
        sprintf(name, "node%d", (int)(node % nodes));
}

/* Lengths of the messages, which both sides know: all that is sent eagerly. */
static int words_of(int64_t number) {
    static const int words[] = {1, 5, 6, 30, 250, WORDS_MAX};
    return words[number % 6];
}

static void send_some(state *state) {
    int64_t data[WORDS_MAX];
    for (int to = 0; to < size; to++) {
        for (int i = 0; i <= (state->round + to + rank) % 3; i++) {
            int64_t number = state->sent[to]++;
            for (int word = 0; word < words_of(number); word++)
                data[word] = number * 1000 + word;
            MPI_Send(data, words_of(number), MPI_INT64_T, to, (int)(number % 2), MPI_COMM_WORLD);
        }
    }
}

/* Takes the next message of a source, or of any: it is the next of its pair. */
static void receive_one(state *state, int from) {
    int64_t data[WORDS_MAX], *got;
    MPI_Status status;
    int words;
    MPI_Recv(data, WORDS_MAX, MPI_INT64_T, from, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT64_T, &words);
    WANT(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < size, "a message of %d", status.MPI_SOURCE);
    WANT(from < 0 || status.MPI_SOURCE == from, "a message of %d, not %d", status.MPI_SOURCE, from);
    got = &state->got[status.MPI_SOURCE];
    WANT(words == words_of(*got), "%d words of %d, expected message %d", words, status.MPI_SOURCE, (int)*got);
    WANT(status.MPI_TAG == *got % 2, "tag %d of message %d", status.MPI_TAG, (int)*got);
    for (int word = 0; word < words; word++)
        WANT(data[word] == *got * 1000 + word, "round %d: %d of %d is %d, expected message %d", (int)state->round, word,
             status.MPI_SOURCE, (int)data[word], (int)*got);
    ++*got;
}

/* All that all have sent, but the last `left` of each pair. */
static void receive(state *state, int64_t left) {
    int64_t sent[RANKS_MAX], all = 0;
    MPI_Alltoall(state->sent, 1, MPI_INT64_T, sent, 1, MPI_INT64_T, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++) {
        if (left == 0)
            all += sent[from] - state->got[from];
        else
            while (state->got[from] < sent[from] - left)
                receive_one(state, from);
    }
    while (all-- > 0)
        receive_one(state, MPI_ANY_SOURCE);
    for (int from = 0; left == 0 && from < size; from++)
        WANT(state->got[from] == sent[from], "%d messages of %d, expected %d", (int)state->got[from], from, (int)sent[from]);
}

static void meet(void) {
    int one = 1, sum = 0, me, all;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    WANT(me == rank && all == size, "rank %d of %d, expected %d of %d", me, all, rank, size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    WANT(sum == size, "%d ranks, expected %d", sum, size);
}

static void ring(state *state, int64_t moves, int64_t nodes) {
    char node[32];
    while (state->moves < moves) {
        int moved, mover = (int)(state->round % size);
        send_some(state);
        /* What has come meanwhile differs from rank to rank. */
        if ((state->round + rank) % 4 == 0)
            while (state->got[rank] < state->sent[rank])
                receive_one(state, rank);
        state->round++;
        state->moves++;
        name_node(node, state->round / size + mover, nodes);
        moved = tutti_move(mover == rank ? node : NULL, mover == rank ? state : NULL, mover == rank ? sizeof *state : 0);
        WANT(moved == 1, "move %d: %d: %s", (int)state->moves, moved, tutti_move_refusal());
        receive(state, 1);
    }
    receive(state, 0);
    meet();
}

/* The part of a round that the successor does too. */
static void resume(state *state, int64_t moves, int64_t nodes) {
    receive(state, 1);
    ring(state, moves, nodes);
}

static void all_at_once(state *state, int64_t times, int64_t nodes) {
    char node[32];
    while (state->moves < times) {
        send_some(state);
        state->round++;
        state->moves++;
        name_node(node, rank + state->round, nodes);
        tutti_move(node, state, sizeof *state);
        WANT(0, "it is here yet: %s", tutti_move_refusal());
    }
    receive(state, 0);
    meet();
}

typedef struct {
    char kind;
    double value;
    int strip[12];
} record;

static void make_types(comms_state *state) {
    int lengths[3] = {1, 1, 1};
    MPI_Aint places[3] = {offsetof(record, kind), offsetof(record, value), offsetof(record, strip)};
    MPI_Datatype strided, parts[3] = {MPI_CHAR, MPI_DOUBLE, MPI_DATATYPE_NULL}, whole;
    if (rank % 2) /* handles differ from rank to rank */
        MPI_Type_contiguous(2, MPI_INT, &whole);
    MPI_Type_vector(3, 1, 4, MPI_INT, &strided);
    MPI_Type_create_resized(strided, 0, sizeof(int), &state->strip);
    MPI_Type_free(&strided);
    MPI_Type_commit(&state->strip);
    MPI_Type_set_name(state->strip, "strip");
    parts[2] = state->strip;
    MPI_Type_create_struct(3, lengths, places, parts, &whole);
    MPI_Type_create_resized(whole, 0, sizeof(record), &state->record);
    MPI_Type_free(&whole);
    MPI_Type_commit(&state->record);
}

/* Datatypes are what they were. */
static void check_types(comms_state *state) {
    record out[2], in[2];
    char name[MPI_MAX_OBJECT_NAME];
    int length, before = (rank + size - 1) % size, strips[6] = {0};
    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
    for (int which = 0; which < 2; which++) {
        out[which].kind = (char)('a' + rank);
        out[which].value = rank + which / 2.;
        for (int i = 0; i < 12; i++)
            out[which].strip[i] = rank * 100 + which * 12 + i;
    }
    MPI_Type_get_name(state->strip, name, &length);
    WANT(!strcmp(name, "strip"), "the strip is called \"%s\"", name);
    MPI_Sendrecv(out[1].strip + 1, 2, state->strip, (rank + 1) % size, 6, strips, 6, MPI_INT, before, 6, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 6; i++)
        WANT(strips[i] == before * 100 + 13 + i / 3 + i % 3 * 4, "number %d of the strips is %d", i, strips[i]);
    MPI_Sendrecv(out, 2, state->record, (rank + 1) % size, 7, in, 2, state->record, before, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int which = 0; which < 2; which++) {
        WANT(in[which].kind == 'a' + before && in[which].value == before + which / 2., "another record");
        for (int i = 0; i < 12; i++)
            WANT(in[which].strip[i] == (i % 4 ? 0 : before * 100 + which * 12 + i), "number %d is %d", i, in[which].strip[i]);
    }
}

static void make_comms(comms_state *state) {
    int dims[2] = {0, 0}, periods[2] = {1, 0}, before = (rank + size - 1) % size, behind = (rank + 1) % size;
    MPI_Comm copy, half;
    MPI_Info info;

    /* One handle differs from rank to rank. */
    if (rank % 2)
        MPI_Comm_dup(MPI_COMM_SELF, &state->comms[OWN]);
    else
        state->comms[OWN] = MPI_COMM_SELF;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(copy, rank / 2, rank, &state->comms[ROW]);
    MPI_Comm_split(copy, rank % 2, -rank, &state->comms[COLUMN]);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(copy, 2, dims, periods, 0, &state->comms[GRID]);
    MPI_Comm_set_name(state->comms[GRID], "grid");
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_exact_length", "true");
    MPI_Comm_set_info(state->comms[GRID], info);
    MPI_Info_free(&info);
    MPI_Comm_set_errhandler(state->comms[GRID], MPI_ERRORS_RETURN);
    MPI_Dist_graph_create_adjacent(copy, 1, &before, &rank, 1, &behind, &behind, MPI_INFO_NULL, 0, &state->comms[GRAPH]);
    MPI_Comm_split(copy, rank < size / 2, 0, &half);
    MPI_Intercomm_create(half, 0, copy, rank < size / 2 ? size / 2 : 0, 3, &state->comms[INTER]);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy); /* its slot is used again */
    MPI_Comm_group(state->comms[ROW], &state->row);
    MPI_Comm_set_name(MPI_COMM_WORLD, "all of us");
}

static int peers(MPI_Comm comm) {
    int is_inter, number;
    MPI_Comm_test_inter(comm, &is_inter);
    is_inter ? MPI_Comm_remote_size(comm, &number) : MPI_Comm_size(comm, &number);
    return number;
}

static void send_by_comms(comms_state *state) {
    int64_t data[WORDS_MAX];
    for (int which = 0; which < COMMS; which++) {
        for (int to = 0; to < peers(state->comms[which]); to++) {
            for (int i = 0; i <= state->moves % 2; i++) {
                int64_t number = state->sent[which][to]++;
                for (int word = 0; word < words_of(number); word++)
                    data[word] = number * 1000 + word + which;
                MPI_Send(data, words_of(number), MPI_INT64_T, to, 5, state->comms[which]);
            }
        }
    }
}

static void receive_by_comm(comms_state *state, int which, int from) {
    int64_t data[WORDS_MAX], *got = &state->got[which][from];
    MPI_Status status;
    int words, number;
    MPI_Recv(data, WORDS_MAX, MPI_INT64_T, from, 5, state->comms[which], &status);
    MPI_Get_count(&status, MPI_INT64_T, &words);
    number = (int)*got;
    WANT(status.MPI_SOURCE == from && words == words_of(number), "communicator %d: %d words of %d, expected message %d",
         which, words, status.MPI_SOURCE, number);
    for (int word = 0; word < words; word++)
        WANT(data[word] == *got * 1000 + word + which, "communicator %d: %d of %d is %d, expected message %d", which, word,
             from, (int)data[word], number);
    ++*got;
}

/* So many of the messages of this round, which all send alike. */
static void receive_by_comms(comms_state *state, int number) {
    for (int which = 0; which < COMMS; which++)
        for (int from = 0; from < peers(state->comms[which]); from++)
            for (int i = 0; i < number; i++)
                receive_by_comm(state, which, from);
}

static void expect_sum(MPI_Comm comm, int expected) {
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    WANT(sum == expected, "%d ranks, expected %d", sum, expected);
}

/* Communicators are what they were, and of use. */
static void check_comms(comms_state *state) {
    int dims[2], periods[2], at[2], wanted[2] = {0, 0}, me, members, result, flag, before, behind, weights[2];
    int around[4] = {-2, -2, -2, -2}, low, high, across[RANKS_MAX], in, out;
    char name[MPI_MAX_OBJECT_NAME], value[16];
    MPI_Errhandler handler;
    MPI_Group group;
    MPI_Comm made;
    MPI_Info info;

    members = size - rank / 2 * 2 < 2 ? 1 : 2;
    expect_sum(state->comms[ROW], members);
    MPI_Comm_rank(state->comms[ROW], &me);
    WANT(me == rank % 2, "rank %d of the row, expected %d", me, rank % 2);
    MPI_Comm_group(state->comms[ROW], &group);
    MPI_Group_compare(group, state->row, &result);
    WANT(result == MPI_IDENT, "the group of the row is another one: %d", result);
    MPI_Group_free(&group);
    expect_sum(state->comms[COLUMN], (size + 1 - rank % 2) / 2);
    MPI_Comm_rank(state->comms[COLUMN], &me);
    WANT(me == (size - 1 - rank) / 2, "rank %d of the column", me);
    expect_sum(state->comms[OWN], 1);

    MPI_Cart_get(state->comms[GRID], 2, dims, periods, at);
    MPI_Dims_create(size, 2, wanted);
    WANT(dims[0] == wanted[0] && dims[1] == wanted[1] && periods[0] && !periods[1], "another grid");
    WANT(at[0] * dims[1] + at[1] == rank, "at %d, %d of the grid", at[0], at[1]);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, around, 1, MPI_INT, state->comms[GRID]);
    MPI_Cart_shift(state->comms[GRID], 0, 1, &low, &high);
    WANT(around[0] == low && around[1] == high, "neighbours %d and %d, expected %d and %d", around[0], around[1], low, high);
    MPI_Comm_get_name(state->comms[GRID], name, &members);
    WANT(!strcmp(name, "grid"), "the grid is called \"%s\"", name);
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &members);
    WANT(!strcmp(name, "all of us"), "all are called \"%s\"", name);
    MPI_Comm_get_info(state->comms[GRID], &info);
    MPI_Info_get(info, "mpi_assert_exact_length", 15, value, &flag);
    WANT(flag && !strcmp(value, "true"), "the grid has lost its hint");
    MPI_Info_free(&info);
    MPI_Comm_get_errhandler(state->comms[GRID], &handler);
    WANT(handler == MPI_ERRORS_RETURN, "the grid has lost its error handler");

    MPI_Dist_graph_neighbors(state->comms[GRAPH], 1, &before, weights, 1, &behind, weights + 1);
    WANT(before == (rank + size - 1) % size && behind == (rank + 1) % size, "neighbours %d and %d", before, behind);
    WANT(weights[0] == rank && weights[1] == behind, "weights %d and %d", weights[0], weights[1]);
    out = rank, in = -1;
    MPI_Neighbor_alltoall(&out, 1, MPI_INT, &in, 1, MPI_INT, state->comms[GRAPH]);
    WANT(in == before, "%d of rank %d", in, before);

    MPI_Allgather(&rank, 1, MPI_INT, across, 1, MPI_INT, state->comms[INTER]);
    for (int i = 0; i < peers(state->comms[INTER]); i++)
        WANT(across[i] == i + (rank < size / 2 ? size / 2 : 0), "rank %d is %d across", across[i], i);
    /* New ones are made of them. */
    MPI_Intercomm_merge(state->comms[INTER], rank < size / 2, &made);
    expect_sum(made, size);
    MPI_Comm_free(&made);
    MPI_Comm_create_group(state->comms[GRID], state->row, 4, &made);
    expect_sum(made, size - rank / 2 * 2 < 2 ? 1 : 2);
    MPI_Comm_free(&made);
}

/* Attributes stay where they are set. */
static void check_attributes(comms_state *state, int is_successor) {
    static int key = MPI_KEYVAL_INVALID, value;
    int *found, flag, is_new = key == MPI_KEYVAL_INVALID;
    if (is_new)
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_get_attr(state->comms[ROW], key, &found, &flag);
    WANT(flag == !is_new && (is_new || found == &value), "attribute %d of a %s", flag, is_successor ? "successor" : "rank");
    if (is_new)
        MPI_Comm_set_attr(state->comms[ROW], key, &value);
}

static void comms(comms_state *state, int64_t moves, int64_t nodes, int is_successor) {
    char node[32];
    if (!is_successor) {
        make_comms(state);
        make_types(state);
    }
    for (int is_first = 1;; is_first = 0) {
        check_attributes(state, is_successor);
        if (!is_first || is_successor) {
            receive_by_comms(state, 1);
            check_comms(state);
            check_types(state);
        }
        if (state->moves == moves)
            break;
        send_by_comms(state);
        if (state->moves % 2)
            receive_by_comms(state, 1);
        int mover = (int)(state->moves % size), moved;
        name_node(node, state->moves / size + mover, nodes);
        state->moves++;
        moved = tutti_move(mover == rank ? node : NULL, mover == rank ? state : NULL, mover == rank ? sizeof *state : 0);
        WANT(moved == 1, "move %d: %d: %s", (int)state->moves, moved, tutti_move_refusal());
    }
    for (int which = 0; which < COMMS; which++)
        if (state->comms[which] != MPI_COMM_SELF)
            MPI_Comm_free(&state->comms[which]);
    MPI_Group_free(&state->row);
    MPI_Type_free(&state->strip);
    MPI_Type_free(&state->record);
    meet();
}

/* Nobody moves: rank 1 or all have something. */
static void expect_refusal_of(const char *node, int status, const char *text) {
    int result = tutti_move(rank == 0 ? node : NULL, "x", rank == 0);
    WANT(result == status, "status %d, expected %d: %s", result, status, text);
    WANT(strstr(tutti_move_refusal(), text), "\"%s\", expected \"%s\"", tutti_move_refusal(), text);
    meet();
}

static void expect_refusal(int status, const char *text) {
    expect_refusal_of("localhost", status, text);
}

enum { PARTS = 40 };

/* A send of many small partitions that is over for its rank. */
static MPI_Request send_partitions(long *parts) {
    MPI_Request request;
    for (int i = 0; i < PARTS; i++)
        parts[i] = 100 + i;
    MPI_Psend_init(parts, PARTS, 1, MPI_LONG, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready_range(0, PARTS - 1, request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return request;
}

static void receive_partitions(long *parts) {
    MPI_Request request;
    MPI_Precv_init(parts, PARTS, 1, MPI_LONG, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    for (int i = 0; i < PARTS; i++)
        WANT(parts[i] == 100 + i, "partition %d is %ld", i, parts[i]);
}

static int is_one_node(void) {
    MPI_Comm node;
    int ranks;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks);
    MPI_Comm_free(&node);
    return ranks == size;
}

/* Started by refused. */
static void child(void) {
    MPI_Comm parents, all;
    MPI_Comm_get_parent(&parents);
    MPI_Intercomm_merge(parents, 1, &all);
    MPI_Comm_disconnect(&parents);
    MPI_Comm_disconnect(&all);
}

static int query(void *state, MPI_Status *status) {
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int release(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int cancel(void *state, int is_done) {
    (void)state;
    (void)is_done;
    return MPI_SUCCESS;
}

static int same_extent(MPI_Datatype type, MPI_Aint *extent, void *state) {
    MPI_Aint low;
    (void)state;
    return MPI_Type_get_extent(type, &low, extent);
}

/* What a rank has opened, of a session, a queue, and a state that is none. */
static void refused_by_more(void) {
    MPI_Session session;
    tutti_region queue;
    int result;
    if (rank == 1)
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has an open session");
    if (rank == 1)
        MPI_Session_finalize(&session);
    if (rank == 1)
        WANT(tutti_queue_open(64, &queue) == TUTTI_OK, "a queue");
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has an open queue");
    if (rank == 1)
        tutti_close(&queue);
    result = tutti_move(rank == 0 ? "localhost" : NULL, NULL, rank == 0);
    WANT(result == TUTTI_ERR_BUSY && strstr(tutti_move_refusal(), "rank 0 gives a null pointer for its state"),
         "%d: %s", result, tutti_move_refusal());
    meet();
}

/* The whole process is in the way; what it has is said by the caller. */
static void whole(const char *text) {
    expect_refusal(TUTTI_ERR_BUSY, text);
}

static void refused(char *program) {
    int number = 0, zero = 0;
    long parts[PARTS] = {0};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm comm, inter;
    MPI_Message message;
    MPI_Status status;
    MPI_File file;
    MPI_Win win;
    void *memory;
    char name[64], port[MPI_MAX_PORT_NAME];
    tutti_region region;

    MPI_Comm_spawn(program, (char *[]){"child", NULL}, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has an intercommunicator with processes that are not in MPI_COMM_WORLD");
    MPI_Intercomm_merge(inter, 0, &comm);
    MPI_Comm_set_name(comm, "family");
    MPI_Comm_disconnect(&inter);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has the communicator \"family\" with processes that are not in");
    MPI_Comm_disconnect(&comm);
    if (rank == 1)
        MPI_Irecv(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a receive that is not completed");
    if (rank == 0)
        MPI_Send(&zero, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Issend(&zero, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a send that is not completed");
    if (rank == 0)
        MPI_Recv(&number, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Recv_init(&number, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &request);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 moves and has a persistent request");
    if (rank == 0)
        MPI_Request_free(&request);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (rank == 0)
        MPI_Request_free(&request);
    expect_refusal(TUTTI_ERR_BUSY, "has a persistent collective operation with a rank that moves (MPI_Request_free)");
    if (rank != 0)
        MPI_Request_free(&request);
    if (rank == 1) {
        MPI_Recv_init(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
    }
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a receive that is not completed");
    if (rank == 1) {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        MPI_Grequest_start(query, release, cancel, NULL, &request);
    }
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a generalized request");
    if (rank == 1) {
        MPI_Grequest_complete(request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
    }
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a collective operation that is not completed");
    if (rank == 0)
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    refused_by_more();
    if (rank == 0)
        MPI_Send(&zero, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Mprobe(0, 9, MPI_COMM_WORLD, &message, &status);
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a message of MPI_Mprobe");
    if (rank == 1)
        MPI_Mrecv(&number, 1, MPI_INT, &message, &status);
    if (is_one_node()) {
        if (rank == 1)
            request = send_partitions(parts);
        expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a partitioned request");
        if (rank == 1)
            MPI_Request_free(&request);
        expect_refusal(TUTTI_ERR_BUSY, "rank 1 has sent partitions that are not received");
        if (rank == 0)
            receive_partitions(parts);
    }
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has a window with a rank that moves");
    MPI_Win_free(&win);
    sprintf(name, "moves-%d-%d", (int)getppid(), rank);
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_Register_datarep("own", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, NULL);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "own", MPI_INFO_NULL);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has an open file in a data representation of its own");
    MPI_File_close(&file);
    memory = tutti_alloc(64);
    WANT(tutti_open(memory, 64, TUTTI_READ, &region) == TUTTI_OK, "a region");
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 moves and has an open region");
    tutti_close(&region);
    tutti_free(memory);
    void *published;
    WANT(tutti_publish(name, 64, TUTTI_READ, NULL, &published, &region) == TUTTI_OK, "a published region");
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 moves and publishes a region");
    tutti_close(&region);
    int64_t service;
    WANT(tutti_service_open(name, NULL, &service) == TUTTI_OK, "a service");
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 moves and has a service");
    tutti_service_close(service);
    /* Without a wish nobody asks. */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    WANT(tutti_move(NULL, NULL, 0) == 0, "nobody has wished to move");
    MPI_Comm_free(&comm);
    expect_refusal_of("elsewhere", TUTTI_ERR_START, "elsewhere");
    /* Whoever connects later is refused: what does it stays. */
    if (rank == 1) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has opened a port");
}

static void gone(const char *program) {
    MPI_Barrier(MPI_COMM_WORLD); /* all have begun */
    if (rank == 0)
        unlink(program);
    expect_refusal(TUTTI_ERR_START, "rank 0 has no successor: cannot execute");
}

/* Rank 0 moves, once; whether it has. */
static int move_first(const void *before, const void *data, size_t bytes) {
    if (before)
        return 1;
    WANT(tutti_move(rank == 0 ? "localhost" : NULL, data, rank == 0 ? bytes : 0) == 1, "%s", tutti_move_refusal());
    return 0;
}

static void large(const unsigned char *before, size_t length, size_t bytes) {
    unsigned char *data = malloc(bytes);
    for (size_t at = 0; at < bytes; at++)
        data[at] = (unsigned char)(at * 7 + at / 251);
    if (move_first(before, data, bytes))
        WANT(length == bytes && !memcmp(before, data, bytes), "%zu bytes, expected %zu", length, bytes);
    free(data);
    meet();
}

static void die(int signal) {
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* The seed says when. */
static void killed(const void *before, const char *who, int64_t seed) {
    if (!strcmp(who, "mover") && rank == 0 && !before) {
        struct itimerval time = {{0, 0}, {0, 1 + seed % 20000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &time, NULL);
    }
    if (move_first(before, "x", 1) && !strcmp(who, "successor"))
        raise(SIGKILL);
    meet();
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int64_t first = argc > 2 ? atoll(argv[2]) : 0, second = argc > 3 ? atoll(argv[3]) : 1;
    int status = 0;
    size_t bytes = 0;
    state state = {0};
    const void *before;

    if (!strcmp(what, "whole") && argc > 3)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &status);
    else
        MPI_Init(&argc, &argv);
    status = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    before = tutti_moved(&bytes);
    if (before && bytes == sizeof state)
        memcpy(&state, before, sizeof state);
    if (!strcmp(what, "ring"))
        before ? resume(&state, first, second) : ring(&state, first, second);
    else if (!strcmp(what, "all"))
        all_at_once(&state, first, second);
    else if (!strcmp(what, "comms")) {
        static comms_state kept;
        if (before)
            memcpy(&kept, before, sizeof kept);
        comms(&kept, first, second, before != NULL);
    } else if (!strcmp(what, "refused"))
        refused(argv[0]);
    else if (!strcmp(what, "whole"))
        whole(argv[2]);
    else if (!strcmp(what, "child"))
        child();
    else if (!strcmp(what, "gone"))
        gone(argv[0]);
    else if (!strcmp(what, "large"))
        large(before, bytes, (size_t)first);
    else if (!strcmp(what, "killed"))
        killed(before, argv[2], second);
    else if (!strcmp(what, "status") && move_first(before, NULL, 0))
        status = (int)first;
    else
        WANT(!strcmp(what, "status"), "nothing is asked for");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && !status && strcmp(what, "child"))
        printf("moves are right\n");
    MPI_Finalize();
    return status;
}
