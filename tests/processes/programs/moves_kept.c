/* Files, persistent requests and windows that ranks keep while others move.
 *
 *   moves_kept files MOVES NODES PATH     files of all ranks and of each alone go on under their handles, with views and pointers
 *   moves_kept requests MOVES NODES       persistent requests of those that stay reach those that have moved
 *   moves_kept windows MOVES NODES        windows of those that stay; rank 0 moves
 *   moves_kept collectives MOVES NODES    persistent collective operations of those that stay; rank 0 moves
 *   moves_kept regions MOVES NODES        a region of the last rank, which stays; the handle stands in the state
 *   moves_kept repointed PATH             the open file goes on under another name, and its link leads to another one
 *   moves_kept lost PATH WHAT             a file that a successor cannot open: "gone" or "another"; nobody moves
 */
#define _GNU_SOURCE
#include "../../mpi/programs/require.h"
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_move.h>
#include <unistd.h>

enum { RANKS_MAX = 8, HEAD_BYTES = 8, OWN = 1000 };

typedef struct {
    int64_t moves;
    MPI_File grid, log, own;
} state;

static int rank, size;

static void name_node(char *name, int64_t node, int64_t nodes) {
    if (nodes < 2)
        strcpy(name, "localhost");
    else
        sprintf(name, "node%d", (int)(node % nodes));
}

/* The next rank moves, node by node. */
static void move_next(state *state, int mover, int64_t nodes) {
    char node[32];
    int moved;
    name_node(node, state->moves / size + mover + 1, nodes);
    state->moves++;
    moved = tutti_move(mover == rank ? node : NULL, mover == rank ? state : NULL, mover == rank ? sizeof *state : 0);
    WANT(moved == 1, "move %d: %d: %s", (int)state->moves, moved, tutti_move_refusal());
}

static int value_of(int64_t round, int of) {
    return (int)round * 100 + of;
}

static void open_files(state *state, const char *path) {
    char name[4096];
    MPI_Datatype every;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "2");
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &state->grid);
    MPI_Info_free(&info);
    /* One number of each row; the type is freed and lives on in the view. */
    MPI_Type_create_resized(MPI_INT, 0, size * (MPI_Aint)sizeof(int), &every);
    MPI_Type_commit(&every);
    MPI_File_set_view(state->grid, HEAD_BYTES + rank * (MPI_Offset)sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL);
    MPI_Type_free(&every);
    MPI_File_set_atomicity(state->grid, 1);
    MPI_File_set_errhandler(state->grid, MPI_ERRORS_ARE_FATAL);
    sprintf(name, "%s-log", path);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &state->log);
    MPI_File_set_view(state->log, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    sprintf(name, "%s-%d", path, rank);
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &state->own);
    MPI_File_set_view(state->own, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
}

/* Each rank writes a number into each file, by pointers. */
static void write_round(state *state, int64_t round) {
    int value = value_of(round, rank), own = OWN + value;
    MPI_Status status;
    int count = 0;
    if (round % 2)
        MPI_File_write_all(state->grid, &value, 1, MPI_INT, &status);
    else
        MPI_File_write(state->grid, &value, 1, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    WANT(count == 1, "round %d: %d numbers written", (int)round, count);
    MPI_File_write_shared(state->log, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (round % 3 == 2)
        MPI_File_write_ordered(state->log, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_shared(state->own, &own, 1, MPI_INT, MPI_STATUS_IGNORE);
}

static int logged(int64_t rounds) {
    return (int)(rounds + rounds / 3) * size;
}

/* What the handles name is what it was. */
static void check_files(state *state, int64_t rounds) {
    MPI_Offset at;
    MPI_Datatype etype, filetype;
    MPI_Errhandler handler;
    MPI_Info info;
    MPI_Group group, world;
    char name[MPI_MAX_DATAREP_STRING], value[16] = "";
    int flag, amode, found[64] = {0};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_File_get_group(state->grid, &group);
    MPI_Group_compare(group, world, &flag);
    WANT(flag == MPI_IDENT, "the file has another group: %d", flag);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_File_get_position(state->grid, &at);
    WANT(at == rounds, "the pointer is at %d, expected %d", (int)at, (int)rounds);
    MPI_File_get_position_shared(state->log, &at);
    WANT(at == logged(rounds), "the shared pointer is at %d, expected %d", (int)at, logged(rounds));
    MPI_Barrier(MPI_COMM_WORLD); /* whoever is through moves it */
    MPI_File_get_atomicity(state->grid, &flag);
    WANT(flag == 1, "no atomic mode");
    MPI_File_get_amode(state->grid, &amode);
    WANT(amode == (MPI_MODE_CREATE | MPI_MODE_RDWR), "access mode %d", amode);
    MPI_File_get_errhandler(state->grid, &handler);
    WANT(handler == MPI_ERRORS_ARE_FATAL, "another error handler");
    MPI_Errhandler_free(&handler);
    MPI_File_get_view(state->grid, &at, &etype, &filetype, name);
    WANT(at == HEAD_BYTES + rank * (MPI_Offset)sizeof(int) && !strcmp(name, "native"), "a view from %d, %s", (int)at, name);
    MPI_Type_free(&filetype);
    MPI_File_get_view(state->own, &at, &etype, &filetype, name);
    WANT(etype == MPI_INT && !strcmp(name, "external32"), "another view: %s", name);
    MPI_File_get_info(state->grid, &info);
    MPI_Info_get(info, "cb_nodes", 15, value, &flag);
    WANT(flag && atoi(value) == (size < 2 ? 1 : 2), "cb_nodes is %s", value);
    MPI_Info_free(&info);
    MPI_File_read_at_all(state->grid, 0, found, (int)rounds, MPI_INT, MPI_STATUS_IGNORE);
    for (int64_t round = 0; round < rounds; round++)
        WANT(found[round] == value_of(round, rank), "round %d: %d", (int)round, found[round]);
    MPI_File_read_at(state->own, 0, found, (int)rounds, MPI_INT, MPI_STATUS_IGNORE);
    for (int64_t round = 0; round < rounds; round++)
        WANT(found[round] == OWN + value_of(round, rank), "round %d, alone: %d", (int)round, found[round]);
}

/* The log has each number as often as it was written. */
static void check_log(state *state, int64_t rounds) {
    int found, times[64][RANKS_MAX] = {{0}}, all = logged(rounds);
    MPI_Offset bytes;
    MPI_File_get_size(state->log, &bytes);
    WANT(bytes == all * (MPI_Offset)sizeof(int), "the log has %d bytes", (int)bytes);
    for (int at = 0; at < all; at++) {
        MPI_File_read_at(state->log, at, &found, 1, MPI_INT, MPI_STATUS_IGNORE);
        WANT(found >= 0 && found / 100 < rounds && found % 100 < size, "the log has %d", found);
        times[found / 100][found % 100]++;
    }
    for (int64_t round = 0; round < rounds; round++)
        for (int of = 0; of < size; of++)
            WANT(times[round][of] == (round % 3 == 2 ? 2 : 1), "round %d: %d is there %d times", (int)round, of,
                 times[round][of]);
}

static void files(state *state, int64_t moves, int64_t nodes, const char *path, int is_successor) {
    char name[4096];
    if (!is_successor)
        open_files(state, path);
    for (;; is_successor = 0) {
        if (!is_successor && state->moves < moves) {
            write_round(state, state->moves);
            move_next(state, (int)(state->moves % size), nodes);
        }
        check_files(state, state->moves);
        if (state->moves == moves)
            break;
    }
    MPI_File_sync(state->log);
    MPI_Barrier(MPI_COMM_WORLD);
    check_log(state, moves);
    MPI_File_close(&state->grid);
    MPI_File_close(&state->log);
    MPI_File_close(&state->own);
    sprintf(name, "%s-%d", path, rank);
    WANT(access(name, F_OK) != 0, "%s is not deleted", name);
}

/* Persistent requests: with the neighbours, on a communicator in another order, and from any rank. */
enum { SEND, RECEIVE, SEND_BACK, RECEIVE_BACK, RECEIVE_ANY, REQUESTS };

static void make_requests(MPI_Request *requests, int *out, int *in, MPI_Comm back) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size, there, peers;
    MPI_Comm_rank(back, &there);
    MPI_Comm_size(back, &peers);
    MPI_Send_init(&out[0], 1, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[SEND]);
    MPI_Recv_init(&in[0], 1, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[RECEIVE]);
    MPI_Ssend_init(&out[1], 1, MPI_INT, (there + 1) % peers, 2, back, &requests[SEND_BACK]);
    MPI_Recv_init(&in[1], 1, MPI_INT, (there + peers - 1) % peers, 2, back, &requests[RECEIVE_BACK]);
    MPI_Recv_init(&in[2], 1, MPI_INT, MPI_ANY_SOURCE, 3, back, &requests[RECEIVE_ANY]);
}

static void use_requests(MPI_Request *requests, int *out, int *in, MPI_Comm back, int64_t round) {
    MPI_Status statuses[REQUESTS];
    int there, peers;
    MPI_Comm_rank(back, &there);
    MPI_Comm_size(back, &peers);
    out[0] = out[1] = value_of(round, rank);
    in[0] = in[1] = in[2] = -1;
    MPI_Startall(REQUESTS, requests);
    MPI_Send(&rank, 1, MPI_INT, (there + 1) % peers, 3, back);
    MPI_Waitall(REQUESTS, requests, statuses);
    int before = (rank + size - 1) % size, behind = (rank + 1) % size, last = (there + peers - 1) % peers;
    WANT(in[0] == value_of(round, before), "%d of rank %d", in[0], before);
    /* That communicator has the ranks the other way round. */
    WANT(in[1] == value_of(round, behind) && in[2] == behind, "%d and %d of rank %d", in[1], in[2], behind);
    WANT(statuses[RECEIVE].MPI_SOURCE == before, "from %d, expected %d", statuses[RECEIVE].MPI_SOURCE, before);
    WANT(statuses[RECEIVE_BACK].MPI_SOURCE == last, "from %d, expected %d", statuses[RECEIVE_BACK].MPI_SOURCE, last);
    WANT(statuses[RECEIVE_ANY].MPI_SOURCE == last, "from %d, expected %d", statuses[RECEIVE_ANY].MPI_SOURCE, last);
}

typedef struct {
    state first; /* `own` is not used */
    MPI_Comm back;
} request_state;

static void requests(request_state *state, int64_t moves, int64_t nodes, int is_successor) {
    static int out[2], in[3];
    MPI_Request all[REQUESTS];
    if (!is_successor)
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &state->back);
    make_requests(all, out, in, state->back);
    for (;; is_successor = 0) {
        if (!is_successor && state->first.moves < moves) {
            char node[32];
            int mover = (int)(state->first.moves % size), moved;
            use_requests(all, out, in, state->back, state->first.moves);
            if (mover == rank)
                for (int which = 0; which < REQUESTS; which++)
                    MPI_Request_free(&all[which]);
            name_node(node, state->first.moves / size + mover + 1, nodes);
            state->first.moves++;
            moved = tutti_move(mover == rank ? node : NULL, mover == rank ? state : NULL, mover == rank ? sizeof *state : 0);
            WANT(moved == 1, "move %d: %d: %s", (int)state->first.moves, moved, tutti_move_refusal());
        }
        use_requests(all, out, in, state->back, state->first.moves + 1000);
        if (state->first.moves == moves)
            break;
    }
    for (int which = 0; which < REQUESTS; which++)
        MPI_Request_free(&all[which]);
    MPI_Comm_free(&state->back);
}

static void windows(state *state, int64_t moves, int64_t nodes) {
    MPI_Comm rest;
    MPI_Win win = MPI_WIN_NULL;
    int *memory = NULL, me, members, one = 1;
    /* The successor has MPI_COMM_NULL already. */
    if (state->moves == 0)
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &rest);
    if (rank > 0) {
        MPI_Comm_rank(rest, &me);
        MPI_Comm_size(rest, &members);
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, rest, &memory, &win);
        *memory = 0;
        MPI_Win_fence(0, win);
    }
    for (;;) {
        if (rank > 0) {
            MPI_Accumulate(&one, 1, MPI_INT, (me + 1) % members, 0, 1, MPI_INT, MPI_SUM, win);
            MPI_Win_fence(0, win);
            WANT(*memory == state->moves + 1, "%d moves, %d in the window", (int)state->moves, *memory);
        }
        if (state->moves == moves)
            break;
        move_next(state, 0, nodes);
    }
    if (rank > 0) {
        MPI_Win_free(&win);
        MPI_Comm_free(&rest);
    }
}

/* Of the ranks that stay, and between those with odd and even numbers among them. */
static void collectives(state *state, int64_t moves, int64_t nodes) {
    MPI_Comm rest = MPI_COMM_NULL, part, between = MPI_COMM_NULL;
    MPI_Request requests[3];
    int me, members, out = 0, sum = 0, found[RANKS_MAX];
    if (state->moves == 0)
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &rest);
    if (rank > 0) {
        MPI_Comm_rank(rest, &me);
        MPI_Comm_size(rest, &members);
        MPI_Comm_split(rest, me % 2, me, &part);
        MPI_Intercomm_create(part, 0, rest, 1 - me % 2, 5, &between);
        MPI_Allreduce_init(&out, &sum, 1, MPI_INT, MPI_SUM, rest, MPI_INFO_NULL, &requests[0]);
        MPI_Allgather_init(&out, 1, MPI_INT, found, 1, MPI_INT, between, MPI_INFO_NULL, &requests[1]);
        MPI_Barrier_init(rest, MPI_INFO_NULL, &requests[2]);
    }
    for (;;) {
        if (rank > 0) {
            int all = 0, others = (members + me % 2) / 2;
            for (int of = 0; of < members; of++)
                all += value_of(state->moves, of);
            out = value_of(state->moves, me);
            memset(found, -1, sizeof found);
            MPI_Startall(3, requests);
            MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
            WANT(sum == all, "the sum is %d, expected %d", sum, all);
            for (int of = 0; of < others; of++)
                WANT(found[of] == value_of(state->moves, 2 * of + 1 - me % 2), "%d of the other ones' rank %d", found[of], of);
        }
        if (state->moves == moves)
            break;
        move_next(state, 0, nodes);
    }
    if (rank > 0) {
        for (int which = 0; which < 3; which++)
            MPI_Request_free(&requests[which]);
        MPI_Comm_free(&between);
        MPI_Comm_free(&part);
        MPI_Comm_free(&rest);
    }
}

typedef struct {
    int64_t moves;
    tutti_region region;
} region_state;

/* All ranks add to the words of the last one, before and behind each move, and write and read there. */
static void regions(region_state *state, int64_t moves, int64_t nodes, int is_successor) {
    int64_t *memory = NULL, found, all, written, back;
    int last = size - 1;
    if (!is_successor && rank == last) {
        memory = tutti_alloc(64 * sizeof *memory);
        WANT(memory && tutti_open(memory, 64 * sizeof *memory, TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC, &state->region) ==
                           TUTTI_OK, "a region");
    }
    if (!is_successor)
        MPI_Bcast(&state->region, sizeof state->region, MPI_BYTE, last, MPI_COMM_WORLD);
    for (;; is_successor = 0) {
        if (!is_successor && state->moves < moves) {
            char node[32];
            int mover = (int)(state->moves % last), moved;
            written = state->moves * 100 + rank;
            WANT(tutti_write(&state->region, (8 + rank) * sizeof written, &written, sizeof written, TUTTI_POSTED) == TUTTI_OK,
                 "a write");
            name_node(node, state->moves / last + mover + 1, nodes);
            state->moves++;
            moved = tutti_move(mover == rank ? node : NULL, mover == rank ? state : NULL, mover == rank ? sizeof *state : 0);
            WANT(moved == 1, "move %d: %d: %s", (int)state->moves, moved, tutti_move_refusal());
        }
        /* What a rank has written before it has moved is there. */
        WANT(tutti_read(&state->region, (8 + rank) * sizeof back, &back, sizeof back, TUTTI_WAIT) == TUTTI_OK, "a read");
        WANT(back == (state->moves - 1) * 100 + rank, "%d is read in round %d", (int)back, (int)state->moves);
        WANT(tutti_fetch_add(&state->region, 0, 1, &found, TUTTI_WAIT) == TUTTI_OK, "a sum");
        MPI_Barrier(MPI_COMM_WORLD);
        WANT(tutti_read(&state->region, 0, &all, sizeof all, TUTTI_WAIT) == TUTTI_OK, "a read");
        WANT(all == state->moves * size, "the sum is %d, expected %d", (int)all, (int)state->moves * size);
        MPI_Barrier(MPI_COMM_WORLD);
        if (state->moves == moves)
            break;
    }
    if (rank == last) {
        tutti_close(&state->region);
        tutti_free(memory);
    }
}

/* Nobody moves, and the file goes on. */
static void lost(state *state, const char *path, const char *what) {
    char other[4096], wanted[5000];
    int value = 7, found = 0, result;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &state->grid);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        unlink(path);
        if (!strcmp(what, "another")) {
            /* The descriptor still names the one that was here: it goes by the name that it has now. */
            sprintf(other, "%s (deleted)", path);
            FILE *file = fopen(other, "w");
            WANT(file && !fclose(file), "a file");
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    result = tutti_move(rank == 0 ? "localhost" : NULL, "x", rank == 0);
    sprintf(wanted, strcmp(what, "another") ? "rank 0 has no successor: cannot open %s" : "rank 0 has no successor: %s", path);
    WANT(result == TUTTI_ERR_START && !strncmp(tutti_move_refusal(), wanted, strlen(wanted)), "%d: %s", result,
         tutti_move_refusal());
    WANT(strcmp(what, "another") || strstr(tutti_move_refusal(), "is another file there"), "%s", tutti_move_refusal());
    MPI_File_write_at_all(state->grid, rank * (MPI_Offset)sizeof value, &value, sizeof value, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_read_at_all(state->grid, rank * (MPI_Offset)sizeof value, &found, sizeof found, MPI_BYTE, MPI_STATUS_IGNORE);
    WANT(found == 7, "%d is read", found);
    MPI_File_close(&state->grid);
    if (rank == 0 && !strcmp(what, "another"))
        unlink(other);
}

/* The file that was opened goes on, though its link leads to another one now and it has another name. */
static void repointed(state *state, const char *path, int is_successor) {
    char first[4096], second[4096], renamed[4096];
    int value = value_of(state->moves, rank), found = 0;
    MPI_Offset bytes;
    sprintf(first, "%s-first", path);
    sprintf(second, "%s-second", path);
    sprintf(renamed, "%s-renamed", path);
    if (!is_successor) {
        if (rank == 0)
            WANT(!symlink(first, path), "a link");
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &state->grid);
        MPI_File_write_at_all(state->grid, rank * (MPI_Offset)sizeof value, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
        if (rank == 0) {
            FILE *file = fopen(second, "w");
            WANT(file && !fclose(file) && !unlink(path) && !symlink(second, path) && !rename(first, renamed), "another file");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        move_next(state, 0, 1);
    }
    value = value_of(state->moves, rank);
    MPI_File_write_at_all(state->grid, (size + rank) * (MPI_Offset)sizeof value, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    for (int round = 0; round < 2; round++) {
        MPI_File_read_at_all(state->grid, (round * size + rank) * (MPI_Offset)sizeof found, &found, 1, MPI_INT,
                             MPI_STATUS_IGNORE);
        WANT(found == value_of(round, rank), "round %d: %d", round, found);
    }
    MPI_File_get_size(state->grid, &bytes);
    WANT(bytes == 2 * size * (MPI_Offset)sizeof value, "the file has %d bytes", (int)bytes);
    MPI_File_close(&state->grid);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *file = fopen(path, "r");
        WANT(file && fgetc(file) == EOF && !fclose(file), "the other file is written");
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int64_t first = argc > 2 ? atoll(argv[2]) : 0, second = argc > 3 ? atoll(argv[3]) : 1;
    static request_state both;
    static region_state kept;
    state state = {0};
    size_t bytes = 0;
    const void *before;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    before = tutti_moved(&bytes);
    if (before && bytes == sizeof state)
        memcpy(&state, before, sizeof state);
    if (before && bytes == sizeof both)
        memcpy(&both, before, sizeof both);
    if (before && bytes == sizeof kept)
        memcpy(&kept, before, sizeof kept);
    if (!strcmp(what, "files"))
        files(&state, first, second, argv[4], before != NULL);
    else if (!strcmp(what, "requests"))
        requests(&both, first, second, before != NULL);
    else if (!strcmp(what, "windows"))
        windows(&state, first, second);
    else if (!strcmp(what, "collectives"))
        collectives(&state, first, second);
    else if (!strcmp(what, "regions"))
        regions(&kept, first, second, before != NULL);
    else if (!strcmp(what, "repointed"))
        repointed(&state, argv[2], before != NULL);
    else if (!strcmp(what, "lost"))
        lost(&state, argv[2], argv[3]);
    else
        WANT(0, "nothing is asked for");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("moves are right\n");
    MPI_Finalize();
    return 0;
}
