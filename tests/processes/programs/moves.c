/* Ranks that move by themselves.
 *
 *   moves ring MOVES NODES    messages between all pairs, numbered, some of which wait over each move; one rank after the
 *                             other moves, node by node, until there were so many moves
 *   moves all TIMES NODES     all ranks move at once, so often
 *   moves refused             what a rank has that cannot move: named, nobody moves, all go on
 *   moves gone                a program that is not there any more
 *   moves status N            a rank that has moved ends with a status
 *   moves killed WHO          "successor": one that has moved is killed; "mover": one that is about to move, some time
 *   moves large BYTES         a state of so many bytes
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <tutti_move.h>
#include <unistd.h>

#define WANT(holds, ...)                                       \
    do {                                                       \
        if (!(holds)) {                                        \
            printf("%s:%d: ", __func__, __LINE__);             \
            printf(__VA_ARGS__);                               \
            printf("\n");                                      \
            fflush(stdout);                                    \
            MPI_Abort(MPI_COMM_WORLD, 1);                      \
        }                                                      \
    } while (0)

enum { RANKS_MAX = 8, WORDS_MAX = 1000 };

typedef struct {
    int64_t round, moves;
    int64_t sent[RANKS_MAX], got[RANKS_MAX]; /* to each rank, from each rank */
} state;

static int rank, size;

static void name_node(char *name, int64_t node, int64_t nodes) {
    if (nodes < 2)
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

/* A send of many small partitions that is over for its rank, and freed. */
static void send_partitions(long *parts) {
    MPI_Request request;
    for (int i = 0; i < PARTS; i++)
        parts[i] = 100 + i;
    MPI_Psend_init(parts, PARTS, 1, MPI_LONG, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready_range(0, PARTS - 1, request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
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

static void refused(void) {
    int number = 0, zero = 0;
    long parts[PARTS] = {0};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm comm, inter, part;
    MPI_Group group;
    MPI_Message message;
    MPI_Status status;
    MPI_File file;
    MPI_Win win;
    void *memory;
    char name[64];
    tutti_region region;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "grid");
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has the communicator \"grid\" (MPI_Comm_free)");
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &part);
    MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, rank == 0, 0, &inter);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&part);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has an intercommunicator");
    MPI_Comm_free(&inter);
    if (rank == 1)
        MPI_Comm_group(MPI_COMM_WORLD, &group);
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a group");
    if (rank == 1)
        MPI_Group_free(&group);
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
    if (rank == 1)
        MPI_Recv_init(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a persistent or partitioned request");
    if (rank == 1)
        MPI_Request_free(&request);
    if (rank == 0)
        MPI_Send(&zero, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Mprobe(0, 9, MPI_COMM_WORLD, &message, &status);
    expect_refusal(TUTTI_ERR_BUSY, "rank 1 has a message of MPI_Mprobe");
    if (rank == 1)
        MPI_Mrecv(&number, 1, MPI_INT, &message, &status);
    if (is_one_node()) {
        if (rank == 1)
            send_partitions(parts);
        expect_refusal(TUTTI_ERR_BUSY, "rank 1 has sent partitions that are not received");
        if (rank == 0)
            receive_partitions(parts);
    }
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has a window");
    MPI_Win_free(&win);
    sprintf(name, "moves-%d-%d", (int)getppid(), rank);
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has an open file");
    MPI_File_close(&file);
    memory = tutti_alloc(64);
    WANT(tutti_open(memory, 64, TUTTI_READ, &region) == TUTTI_OK, "a region");
    expect_refusal(TUTTI_ERR_BUSY, "rank 0 has an open region or queue");
    tutti_close(&region);
    tutti_free(memory);
    /* Without a wish nobody asks. */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    WANT(tutti_move(NULL, NULL, 0) == 0, "nobody has wished to move");
    MPI_Comm_free(&comm);
    expect_refusal_of("elsewhere", TUTTI_ERR_START, "elsewhere");
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

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    before = tutti_moved(&bytes);
    if (before && bytes == sizeof state)
        memcpy(&state, before, sizeof state);
    if (!strcmp(what, "ring"))
        before ? resume(&state, first, second) : ring(&state, first, second);
    else if (!strcmp(what, "all"))
        all_at_once(&state, first, second);
    else if (!strcmp(what, "refused"))
        refused();
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
    if (rank == 0 && !status)
        printf("moves are right\n");
    MPI_Finalize();
    return status;
}
