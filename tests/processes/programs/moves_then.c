/* What begins behind moves: windows and invocations after each, OpenSHMEM behind all of them. Arguments: how many moves, and nodes. */
#include "../../mpi/programs/require.h"
#include <mpi.h>
#include <shmem.h>
#include <stdint.h>
#include <tutti_call.h>
#include <tutti_move.h>

enum { LONGS = 2000 };

static int rank, size;

static void run(const void *arguments, size_t bytes, tutti_reply reply) {
    int64_t number;
    WANT(bytes == sizeof number, "%zu bytes", bytes);
    memcpy(&number, arguments, sizeof number);
    number = number * 100 + rank;
    tutti_call_answer(reply, TUTTI_OK, &number, sizeof number);
}

static const tutti_descriptor probe = {TUTTI_CALL_MAGIC, 1, run, "run"};

/* Each rank writes into the windows of all others, and adds to the one of the next. */
static void use_window(int64_t moves) {
    int64_t *base;
    MPI_Win window;
    CHECK(MPI_Win_allocate((MPI_Aint)(sizeof *base * (size_t)(size + 1)), sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window));
    memset(base, 0, sizeof *base * (size_t)(size + 1));
    CHECK(MPI_Win_fence(0, window));
    int64_t value = moves * 1000 + rank, one = 1;
    for (int to = 0; to < size; to++) {
        CHECK(MPI_Put(&value, 1, MPI_INT64_T, to, rank, 1, MPI_INT64_T, window));
        CHECK(MPI_Accumulate(&one, 1, MPI_INT64_T, to, size, 1, MPI_INT64_T, MPI_SUM, window));
    }
    CHECK(MPI_Win_fence(0, window));
    for (int from = 0; from < size; from++)
        WANT(base[from] == moves * 1000 + from, "behind %ld moves rank %d has put %ld", (long)moves, from, (long)base[from]);
    WANT(base[size] == size, "%ld additions", (long)base[size]);
    CHECK(MPI_Win_free(&window));
}

static struct call {
    tutti_answer answer;
    int64_t result;
} calls[8];

static void take(tutti_answer *answer, int status, const void *data, size_t bytes) {
    struct call *call = (struct call *)answer;
    WANT(status == TUTTI_OK && bytes == sizeof call->result, "status %d, %zu bytes", status, bytes);
    memcpy(&call->result, data, sizeof call->result);
}

static void use_calls(int64_t moves) {
    WANT(tutti_call_init(&probe) == TUTTI_OK, "no invocations behind %ld moves", (long)moves);
    WANT(tutti_call_rank() == rank && tutti_call_ranks() == size, "rank %d of %d", tutti_call_rank(), tutti_call_ranks());
    int64_t number = moves * 10 + rank;
    for (int to = 0; to < size; to++) {
        calls[to].answer.ended = take;
        int status = tutti_call_send(to, &probe, 0, &number, sizeof number, sizeof number, &calls[to].answer);
        WANT(status == TUTTI_OK, "no call to %d: %d", to, status);
    }
    while (tutti_call_open_calls() > 0)
        tutti_call_progress(1);
    for (int to = 0; to < size; to++)
        WANT(calls[to].result == number * 100 + to, "rank %d answers %ld", to, (long)calls[to].result);
    WANT(tutti_call_quit() == TUTTI_OK, "calls are open");
}

static long sums[LONGS];

static void use_shmem(void) {
    shmem_init();
    WANT(shmem_my_pe() == rank && shmem_n_pes() == size, "PE %d of %d", shmem_my_pe(), shmem_n_pes());
    long *values = shmem_calloc((size_t)size, sizeof *values), *counter = shmem_calloc(1, sizeof *counter);
    for (int to = 0; to < size; to++) {
        shmem_long_p(&values[rank], 1000 + rank, to);
        shmem_long_atomic_add(counter, rank + 1, to);
    }
    shmem_barrier_all();
    for (int from = 0; from < size; from++)
        WANT(values[from] == 1000 + from, "PE %d has put %ld", from, values[from]);
    WANT(*counter == (long)size * (size + 1) / 2, "%ld added", *counter);
    static long data[LONGS];
    for (int at = 0; at < LONGS; at++)
        data[at] = at * (rank + 1);
    shmem_barrier_all();
    WANT(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sums, data, LONGS) == 0, "no sum");
    for (int at = 0; at < LONGS; at++)
        WANT(sums[at] == (long)at * size * (size + 1) / 2, "sum %d: %ld", at, sums[at]);
    shmem_finalize();
}

int main(int argc, char **argv) {
    int64_t moves = 0;
    int64_t wanted = argc > 1 ? atol(argv[1]) : 3, nodes = argc > 2 ? atol(argv[2]) : 1;
    CHECK(MPI_Init(&argc, &argv));
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    WANT(size <= 8, "%d ranks", size);
    size_t bytes;
    if (tutti_moved(&bytes) != NULL) {
        memcpy(&moves, tutti_moved(NULL), sizeof moves);
        moves++;
    }
    for (;; moves++) {
        use_window(moves);
        use_calls(moves);
        if (moves == wanted)
            break;
        char name[32];
        sprintf(name, nodes < 2 ? "localhost" : "node%d", (int)((moves + 1) % nodes));
        int is_mover = moves % size == rank;
        int status = tutti_move(is_mover ? name : NULL, is_mover ? &moves : NULL, is_mover ? sizeof moves : 0);
        WANT(status == 1, "%d: %s", status, tutti_move_refusal());
    }
    use_shmem();
    if (rank == 0)
        printf("moves are right\n");
    CHECK(MPI_Finalize());
    return 0;
}
