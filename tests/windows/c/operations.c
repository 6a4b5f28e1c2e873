/* Every operation on every flavour of window under every kind of synchronisation, against a model in plain
   memory. Arguments: seed, rounds. All ranks draw the same numbers. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 4096 /* ints of a rank's memory */
#define ZONE 256   /* of which each rank writes its own zone */

static int me, ranks;
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

#define CHECK(holds, ...)                                                                       \
    do {                                                                                        \
        if (!(holds)) {                                                                         \
            printf("rank %d, line %d: ", me, __LINE__), printf(__VA_ARGS__), puts("");          \
            fflush(stdout);                                                                     \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                       \
        }                                                                                       \
    } while (0)

enum flavour { CREATE, ALLOCATE, SHARED, DYNAMIC, FLAVOURS };
enum epoch { FENCE, PSCW, LOCK, LOCK_ALL, EPOCHS };

struct window {
    enum flavour flavour;
    MPI_Win win;
    int *memory;
    MPI_Aint base[64]; /* displacement 0 of each rank */
};

static struct window make(enum flavour flavour)
{
    struct window w = {flavour, MPI_WIN_NULL, NULL, {0}};
    MPI_Aint bytes = CELLS * sizeof(int);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", draw(2) ? "true" : "false");
    switch (flavour) {
    case CREATE:
        w.memory = malloc(bytes);
        MPI_Win_create(w.memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        break;
    case ALLOCATE: MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &w.memory, &w.win); break;
    case SHARED: MPI_Win_allocate_shared(bytes, sizeof(int), info, MPI_COMM_WORLD, &w.memory, &w.win); break;
    default:
        w.memory = malloc(bytes);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        MPI_Win_attach(w.win, w.memory, bytes);
        MPI_Aint base;
        MPI_Get_address(w.memory, &base);
        MPI_Allgather(&base, 1, MPI_AINT, w.base, 1, MPI_AINT, MPI_COMM_WORLD);
    }
    MPI_Info_free(&info);
    return w;
}

static void unmake(struct window *w)
{
    if (w->flavour == DYNAMIC)
        MPI_Win_detach(w->win, w->memory);
    MPI_Win_free(&w->win);
    CHECK(w->win == MPI_WIN_NULL, "a freed window is MPI_WIN_NULL");
    if (w->flavour == CREATE || w->flavour == DYNAMIC)
        free(w->memory);
}

static MPI_Aint at(const struct window *w, int target, int cell)
{
    return w->flavour == DYNAMIC ? MPI_Aint_add(w->base[target], cell * (MPI_Aint)sizeof(int)) : cell;
}

static MPI_Group everybody;

static void begin(const struct window *w, enum epoch epoch)
{
    switch (epoch) {
    case FENCE: MPI_Win_fence(0, w->win); break;
    case PSCW: MPI_Win_post(everybody, 0, w->win), MPI_Win_start(everybody, 0, w->win); break;
    case LOCK: break;
    default: MPI_Win_lock_all(0, w->win);
    }
}

static void lock(const struct window *w, enum epoch epoch, int target)
{
    if (epoch == LOCK)
        MPI_Win_lock(draw(2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, w->win);
}

static void unlock(const struct window *w, enum epoch epoch, int target)
{
    if (epoch == LOCK)
        MPI_Win_unlock(target, w->win);
}

static void end(const struct window *w, enum epoch epoch)
{
    int flag = 0;
    switch (epoch) {
    case FENCE: MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win); break;
    case PSCW:
        MPI_Win_complete(w->win);
        if (draw(2))
            MPI_Win_wait(w->win);
        else
            while (!flag)
                MPI_Win_test(w->win, &flag);
        break;
    case LOCK: MPI_Barrier(MPI_COMM_WORLD); break;
    default: MPI_Win_unlock_all(w->win), MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Each rank writes its zone of each rank by one of several shapes, then reads it back by another. */
static void put_and_get(struct window *w, enum epoch epoch)
{
    /* What an epoch works on stays as it is until the epoch ends. */
    static int origins[64][2 * ZONE], founds[64][2 * ZONE];
    MPI_Datatype vector, pairs, mixed;
    int lengths[3] = {5, 1, 10}, places[3] = {200, 0, 31};
    MPI_Type_vector(16, 3, 7, MPI_INT, &vector);
    MPI_Type_contiguous(2, MPI_INT, &pairs);
    MPI_Type_indexed(3, lengths, places, MPI_INT, &mixed);
    MPI_Type_commit(&vector), MPI_Type_commit(&pairs), MPI_Type_commit(&mixed);
    memset(w->memory, 0xff, CELLS * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int shape = 0; shape < 6; shape++) {
        int count = 1 + draw(ZONE - 1), skip = draw(ZONE - count + 1), zone = me * ZONE;
        int is_request = draw(2);
        begin(w, epoch);
        for (int target = 0; target < ranks; target++) {
            MPI_Request request;
            int *origin = origins[target];
            for (int i = 0; i < 2 * ZONE; i++)
                origin[i] = me << 24 | target << 16 | shape << 12 | i;
            lock(w, epoch, target);
            switch (shape) {
            case 0:
                if (is_request && epoch >= LOCK) {
                    MPI_Rput(origin, count, MPI_INT, target, at(w, target, zone + skip), count, MPI_INT, w->win, &request);
                    MPI_Wait(&request, MPI_STATUS_IGNORE);
                } else {
                    MPI_Put(origin, count, MPI_INT, target, at(w, target, zone + skip), count, MPI_INT, w->win);
                }
                break;
            case 1: MPI_Put(origin, 48, MPI_INT, target, at(w, target, zone), 1, vector, w->win); break;
            case 2: MPI_Put(origin, 1, vector, target, at(w, target, zone), 48, MPI_INT, w->win); break;
            case 3: MPI_Put(origin, 3, vector, target, at(w, target, zone), 72, pairs, w->win); break;
            case 4: MPI_Put(origin, 1, mixed, target, at(w, target, zone), 1, mixed, w->win); break;
            default: MPI_Put_c(origin, 16, MPI_INT, target, at(w, target, zone), 1, mixed, w->win);
            }
            if (epoch == LOCK)
                MPI_Win_flush(target, w->win);
            if (epoch == LOCK_ALL)
                MPI_Win_flush_all(w->win);
            unlock(w, epoch, target);
        }
        end(w, epoch);
        MPI_Barrier(MPI_COMM_WORLD);
        begin(w, epoch);
        for (int target = 0; target < ranks; target++) {
            int *found = founds[target];
            for (int i = 0; i < 2 * ZONE; i++)
                found[i] = -7;
            lock(w, epoch, target);
            switch (shape) {
            case 0: MPI_Get(found, count, MPI_INT, target, at(w, target, zone + skip), count, MPI_INT, w->win); break;
            case 1: MPI_Get(found, 48, MPI_INT, target, at(w, target, zone), 1, vector, w->win); break;
            case 2: MPI_Get(found, 1, vector, target, at(w, target, zone), 48, MPI_INT, w->win); break;
            case 3: MPI_Get(found, 3, vector, target, at(w, target, zone), 72, pairs, w->win); break;
            case 4: MPI_Get(found, 1, mixed, target, at(w, target, zone), 1, mixed, w->win); break;
            default: MPI_Get_c(found, 16, MPI_INT, target, at(w, target, zone), 1, mixed, w->win);
            }
            unlock(w, epoch, target);
        }
        end(w, epoch);
        for (int target = 0; target < ranks; target++) {
            int words = 0, wrong = 0, *found = founds[target];
            for (int i = 0; i < 2 * ZONE; i++)
                words += found[i] != -7, wrong += found[i] != -7 && found[i] != (me << 24 | target << 16 | shape << 12 | i);
            int expected[6] = {count, 48, 48, 144, 16, 16};
            CHECK(words == expected[shape] && !wrong, "flavour %d, epoch %d, shape %d: %d words of %d, %d wrong",
                  w->flavour, epoch, shape, words, expected[shape], wrong);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* Nobody has written beyond the zones. */
    for (int i = ranks * ZONE; i < CELLS; i++)
        CHECK(w->memory[i] == -1, "cell %d is %d", i, w->memory[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&vector), MPI_Type_free(&pairs), MPI_Type_free(&mixed);
}

/* All ranks change the same elements of rank 0 and of the last rank. */
static void accumulate(struct window *w, enum epoch epoch)
{
    enum { LONG = 1500 };
    static int ones[LONG], befores[6][LONG];
    int times = 3;
    MPI_Datatype vector;
    MPI_Type_vector(LONG / 2, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; i < LONG; i++)
        ones[i] = 1 + (i & 3);
    memset(w->memory, 0, CELLS * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    int targets[2] = {0, ranks - 1};
    begin(w, epoch);
    for (int which = 0; which < (ranks > 1 ? 2 : 1); which++) {
        int target = targets[which];
        for (int time = 0; time < times; time++) {
            int *before = befores[which * times + time];
            lock(w, epoch, target);
            MPI_Accumulate(ones, LONG, MPI_INT, target, at(w, target, 0), LONG, MPI_INT, MPI_SUM, w->win);
            MPI_Accumulate(ones, 3, MPI_INT, target, at(w, target, LONG), 3, MPI_INT, MPI_SUM, w->win);
            MPI_Accumulate(ones, LONG / 2, MPI_INT, target, at(w, target, 0), 1, vector, MPI_SUM, w->win);
            MPI_Accumulate(ones, 1, vector, target, at(w, target, 2000), LONG / 2, MPI_INT, MPI_MAX, w->win);
            MPI_Get_accumulate(ones, LONG, MPI_INT, before, LONG, MPI_INT, target, at(w, target, 0), LONG, MPI_INT,
                               MPI_NO_OP, w->win);
            unlock(w, epoch, target);
        }
    }
    end(w, epoch);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0 || me == ranks - 1) {
        for (int i = 0; i < LONG; i++) {
            int expected = ranks * times * (1 + (i & 3)) + (i % 2 ? 0 : ranks * times * (1 + (i / 2 & 3)));
            CHECK(w->memory[i] == expected, "flavour %d, epoch %d: element %d is %d, not %d", w->flavour, epoch, i,
                  w->memory[i], expected);
        }
        CHECK(w->memory[LONG] == ranks * times && w->memory[LONG + 2] == ranks * times * 3 && !w->memory[LONG + 3],
              "few elements");
        for (int i = 0; i < LONG / 2; i++)
            CHECK(w->memory[2000 + i] == 1 + (2 * i & 3), "a maximum");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&vector);
}

/* Tickets by fetch-and-op: each number is drawn once. A counter by compare-and-swap. Pairs and doubles. */
static void atomics(struct window *w, enum epoch epoch)
{
    enum { DRAWS = 50 };
    struct { double value; int index; } pair = {me * 1.5, me}, old_pairs[DRAWS], old_pair;
    int drawn[DRAWS], one = 1, zero = 0;
    char *all = calloc(ranks, DRAWS);
    double half = 0.5;
    memset(w->memory, 0, CELLS * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    begin(w, epoch);
    for (int i = 0; i < DRAWS; i++) {
        lock(w, epoch, 0);
        MPI_Fetch_and_op(&one, &drawn[i], MPI_INT, 0, at(w, 0, 0), MPI_SUM, w->win);
        MPI_Accumulate(&half, 1, MPI_DOUBLE, 0, at(w, 0, 2), 1, MPI_DOUBLE, MPI_SUM, w->win);
        MPI_Get_accumulate(&pair, 1, MPI_DOUBLE_INT, &old_pairs[i], 1, MPI_DOUBLE_INT, 0, at(w, 0, 4), 1, MPI_DOUBLE_INT,
                           MPI_MAXLOC, w->win);
        unlock(w, epoch, 0);
        /* What was fetched is there behind a flush, which only locks allow. */
        for (int is_done = 0; !is_done;) {
            int seen, found, next;
            lock(w, epoch, 0);
            if (epoch == LOCK || epoch == LOCK_ALL) {
                MPI_Fetch_and_op(NULL, &seen, MPI_INT, 0, at(w, 0, 10), MPI_NO_OP, w->win);
                MPI_Win_flush(0, w->win);
                next = seen + 1;
                MPI_Compare_and_swap(&next, &seen, &found, MPI_INT, 0, at(w, 0, 10), w->win);
                MPI_Win_flush_local(0, w->win);
                is_done = found == seen;
            } else {
                MPI_Accumulate(&one, 1, MPI_INT, 0, at(w, 0, 10), 1, MPI_INT, MPI_SUM, w->win);
                is_done = 1;
            }
            unlock(w, epoch, 0);
        }
    }
    end(w, epoch);
    old_pair = old_pairs[DRAWS - 1];
    CHECK(old_pair.index >= 0 && old_pair.index < ranks, "pair");
    int *numbers = malloc(ranks * DRAWS * sizeof(int));
    MPI_Gather(drawn, DRAWS, MPI_INT, numbers, DRAWS, MPI_INT, 0, MPI_COMM_WORLD);
    if (me == 0) {
        for (int i = 0; i < ranks * DRAWS; i++) {
            CHECK(numbers[i] >= 0 && numbers[i] < ranks * DRAWS && !all[numbers[i]], "ticket %d twice", numbers[i]);
            all[numbers[i]] = 1;
        }
        double sum, best;
        memcpy(&sum, &w->memory[2], sizeof sum), memcpy(&best, &w->memory[4], sizeof best);
        CHECK(w->memory[0] == ranks * DRAWS && w->memory[10] == ranks * DRAWS, "counters");
        CHECK(sum == ranks * DRAWS * 0.5, "sum of doubles %g", sum);
        CHECK(best == (ranks - 1) * 1.5 && w->memory[6] == ranks - 1, "maximum and its place: %g %d", best, w->memory[6]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* MPI_REPLACE, and no target at all. */
    begin(w, epoch);
    int to = (me + 1) % ranks;
    lock(w, epoch, to);
    MPI_Accumulate(&me, 1, MPI_INT, to, at(w, to, 20), 1, MPI_INT, MPI_REPLACE, w->win);
    unlock(w, epoch, to);
    lock(w, epoch, MPI_PROC_NULL);
    MPI_Put(&one, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w->win);
    MPI_Accumulate(&one, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, w->win);
    unlock(w, epoch, MPI_PROC_NULL);
    end(w, epoch);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(w->memory[20] == (me + ranks - 1) % ranks, "replaced");
    MPI_Barrier(MPI_COMM_WORLD);
    (void)zero;
    free(all), free(numbers);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    state = strtoull(argv[1], NULL, 10) * 2 + 1;
    int rounds = atoi(argv[2]), mates;
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &mates);
    MPI_Comm_free(&node);
    for (int round = 0; round < rounds; round++)
        for (int flavour = 0; flavour < FLAVOURS; flavour++) {
            if (flavour == SHARED && mates < ranks)
                continue;
            struct window w = make(flavour);
            for (int epoch = 0; epoch < EPOCHS; epoch++) {
                put_and_get(&w, epoch);
                accumulate(&w, epoch);
                atomics(&w, epoch);
            }
            unmake(&w);
        }
    MPI_Group_free(&everybody);
    if (me == 0)
        puts("operations: all right");
    MPI_Finalize();
    return 0;
}
