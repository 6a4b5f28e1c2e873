/* Windows where the kernel refuses single copies to some ranks. Operations on memory that MPI_Win_allocate
   gave work; those on memory of another process that is not mapped are MPI_ERR_RMA_RANGE at the call, change
   nothing, and leave nothing behind: the epoch goes on, and ranks that may copy work on the same memory.
   Arguments: who is refused, "all" or "last"; then "fatal" keeps the error handler that ends the job. */
#define _GNU_SOURCE
#include "../../collectives/c/refuse.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 40000 };
enum flavour { ALLOCATE, SHARED, CREATE, DYNAMIC, FLAVOURS };

static int me, ranks, is_fatal, is_refused;

#define CHECK(holds)                                                                            \
    do {                                                                                        \
        if (!(holds)) {                                                                         \
            fprintf(stderr, "rank %d, line %d: expected %s\n", me, __LINE__, #holds);           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                       \
        }                                                                                       \
    } while (0)

struct window {
    MPI_Win win;
    int *memory;
    MPI_Aint *base; /* displacement 0 of each rank */
    MPI_Aint unit;  /* displacement of one int */
};

static struct window make(enum flavour flavour)
{
    struct window w = {MPI_WIN_NULL, NULL, calloc(ranks, sizeof(MPI_Aint)), 1};
    MPI_Aint bytes = CELLS * sizeof(int);
    int unit = sizeof(int);
    switch (flavour) {
    case ALLOCATE: MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.memory, &w.win); break;
    case SHARED:
        MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.memory, &w.win);
        break;
    case CREATE:
        w.memory = malloc(bytes);
        MPI_Win_create(w.memory, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        break;
    default:
        w.memory = malloc(bytes), w.unit = unit;
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        MPI_Win_attach(w.win, w.memory, bytes);
        MPI_Aint base;
        MPI_Get_address(w.memory, &base);
        MPI_Allgather(&base, 1, MPI_AINT, w.base, 1, MPI_AINT, MPI_COMM_WORLD);
    }
    if (!is_fatal)
        MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
    memset(w.memory, 0, bytes);
    return w;
}

static void unmake(struct window *w, enum flavour flavour)
{
    if (flavour == DYNAMIC)
        CHECK(MPI_Win_detach(w->win, w->memory) == MPI_SUCCESS);
    CHECK(MPI_Win_free(&w->win) == MPI_SUCCESS);
    if (flavour == CREATE || flavour == DYNAMIC)
        free(w->memory);
    free(w->base);
}

/* An operation is done, or refused with a text that helps. */
static int is_right(int code, int works)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = MPI_SUCCESS, length;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class), MPI_Error_string(code, text, &length);
    if (class == (works ? MPI_SUCCESS : MPI_ERR_RMA_RANGE) && (works || strstr(text, "MPI_Win_allocate")))
        return 1;
    fprintf(stderr, "rank %d: class %d: %s\n", me, class, text);
    return 0;
}

/* Every kind of operation of this rank on `target`, in cells of its own, and on one that all add to. */
static void operate(const struct window *w, int target, int works)
{
    static int ones[CELLS], found[CELLS];
    int one = 1, seen = -1, zero = 0, zone = 8 * (me + 1), is_done = 0;
    MPI_Datatype gaps;
    MPI_Request request;
    MPI_Type_vector(3, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    for (int i = 0; i < CELLS; i++)
        ones[i] = 1;
#define AT(cell) (w->base[target] + (cell) * w->unit)
    CHECK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win) == MPI_SUCCESS);
    CHECK(is_right(MPI_Put(&one, 1, MPI_INT, target, AT(zone), 1, MPI_INT, w->win), works));
    CHECK(is_right(MPI_Put(ones, 3, MPI_INT, target, AT(zone + 1), 1, gaps, w->win), works));
    CHECK(MPI_Win_flush(target, w->win) == MPI_SUCCESS);
    CHECK(is_right(MPI_Get(&seen, 1, MPI_INT, target, AT(zone), 1, MPI_INT, w->win), works));
    CHECK(MPI_Win_flush(target, w->win) == MPI_SUCCESS && seen == (works ? 1 : -1));
    CHECK(is_right(MPI_Fetch_and_op(&one, &seen, MPI_INT, target, AT(zone + 6), MPI_SUM, w->win), works));
    CHECK(MPI_Win_flush_local(target, w->win) == MPI_SUCCESS && seen == (works ? 0 : -1));
    CHECK(is_right(MPI_Compare_and_swap(&one, &zero, &seen, MPI_INT, target, AT(zone + 7), w->win), works));
    CHECK(MPI_Win_flush(target, w->win) == MPI_SUCCESS && seen == (works ? 0 : -1));
    CHECK(is_right(MPI_Accumulate(&one, 1, MPI_INT, target, AT(0), 1, MPI_INT, MPI_SUM, w->win), works));
    CHECK(is_right(MPI_Accumulate(ones, 1, gaps, target, AT(1), 1, gaps, MPI_SUM, w->win), works));
    /* Of many sections, each with its gate. */
    int half = CELLS / 2;
    CHECK(is_right(MPI_Get_accumulate(ones, half, MPI_INT, found, half, MPI_INT, target, AT(half), half,
                                      MPI_INT, MPI_SUM, w->win), works));
    int code = MPI_Rput(ones, 1, MPI_INT, target, AT(zone + 2), 1, MPI_INT, w->win, &request);
    CHECK(is_right(code, works));
    if (code == MPI_SUCCESS)
        CHECK(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done);
    CHECK(MPI_Win_flush(target, w->win) == MPI_SUCCESS);
    CHECK(MPI_Win_unlock(target, w->win) == MPI_SUCCESS);
    MPI_Type_free(&gaps);
}

/* So many ranks have worked on this one's memory. */
static void look(const struct window *w, int workers, const int *has_worked)
{
    CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, w->win) == MPI_SUCCESS);
    CHECK(w->memory[0] == workers && w->memory[1] == workers && w->memory[2] == 0 && w->memory[5] == workers);
    for (int from = 0; from < ranks; from++) {
        int zone = 8 * (from + 1), expected[8] = {1, 1, 1, 1, 0, 1, 1, 1};
        for (int i = 0; i < 8; i++)
            CHECK(w->memory[zone + i] == (has_worked[from] ? expected[i] : 0));
    }
    for (int i = CELLS / 2; i < CELLS; i++)
        CHECK(w->memory[i] == workers);
    CHECK(MPI_Win_unlock(me, w->win) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    is_refused = strcmp(argv[1], "all") == 0 || me == ranks - 1;
    is_fatal = argc > 2;
    int *refused = calloc(ranks, sizeof *refused), *worked = calloc(ranks, sizeof *worked);
    if (is_refused)
        CHECK(refuse_single_copies() == 0);
    MPI_Allgather(&is_refused, 1, MPI_INT, refused, 1, MPI_INT, MPI_COMM_WORLD);
    for (int flavour = 0; flavour < FLAVOURS; flavour++) {
        struct window w = make(flavour);
        int is_mapped = flavour == ALLOCATE || flavour == SHARED, workers = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        /* Those that are refused come first: what they might leave, the others meet. */
        for (int turn = 1; turn >= 0; turn--) {
            for (int step = 0; step < ranks && is_refused == turn; step++) {
                int target = (me + step) % ranks;
                operate(&w, target, target == me || is_mapped || !is_refused);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        for (int from = 0; from < ranks; from++)
            workers += worked[from] = from == me || is_mapped || !refused[from];
        look(&w, workers, worked);
        /* Without locks it is the same. */
        int one = 1, next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
        CHECK(MPI_Win_fence(0, w.win) == MPI_SUCCESS);
        CHECK(is_right(MPI_Put(&one, 1, MPI_INT, next, w.base[next] + 4 * w.unit, 1, MPI_INT, w.win),
                       is_mapped || !is_refused));
        CHECK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win) == MPI_SUCCESS);
        CHECK(w.memory[4] == worked[before]);
        MPI_Barrier(MPI_COMM_WORLD);
        unmake(&w, flavour);
    }
    free(refused), free(worked);
    if (me == 0)
        puts("refused: all right");
    MPI_Finalize();
    return 0;
}
