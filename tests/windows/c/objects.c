/* What a window is besides its memory: attributes, hints, name, group, error handler, shared memory. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, ranks, failures, deleted, raised;
#define CHECK(holds)                                                                \
    do {                                                                            \
        if (!(holds))                                                               \
            printf("rank %d, line %d: " #holds "\n", me, __LINE__), failures++;     \
    } while (0)

static int forget(MPI_Win win, int key, void *value, void *state)
{
    (void)win, (void)key, (void)state;
    deleted += value == (void *)&deleted;
    return MPI_SUCCESS;
}

static void handler(MPI_Win *win, int *code, ...)
{
    (void)win;
    raised = *code;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win win;
    int *memory, flag, length, key, unit, result;
    void *value;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Aint size;

    for (int shared = 0; shared < 2; shared++) {
        /* Each rank has one more cell than the one before; the first has none. */
        MPI_Aint bytes = me * sizeof(int);
        if (shared)
            MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        else
            MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag);
        CHECK(flag && (me == 0 || value == memory));
        MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag);
        CHECK(flag && *(MPI_Aint *)value == bytes);
        MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag);
        CHECK(flag && *(int *)value == 4);
        MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag);
        CHECK(flag && *(int *)value == (shared ? MPI_WIN_FLAVOR_SHARED : MPI_WIN_FLAVOR_ALLOCATE));
        MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag);
        CHECK(flag && *(int *)value == MPI_WIN_UNIFIED);
        for (int i = 0; i < me; i++)
            memory[i] = 100 * me + i;
        MPI_Win_fence(0, win);
        int *before = NULL;
        for (int rank = 0; rank < ranks; rank++) {
            int *theirs;
            MPI_Win_shared_query(win, rank, &size, &unit, &theirs);
            CHECK(size == rank * (MPI_Aint)sizeof(int) && unit == 4);
            for (int i = 0; i < rank; i++)
                CHECK(theirs[i] == 100 * rank + i);
            if (shared && rank > 1)
                CHECK(theirs == before + rank - 1);
            before = theirs;
        }
        if (ranks > 1) {
            int *first;
            MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &first);
            CHECK(size == sizeof(int) && first[0] == 100);
        }
        MPI_Win_fence(0, win);
        MPI_Win_free(&win);
    }

    MPI_Win_create(&result, sizeof result, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, forget, &key, NULL);
    MPI_Win_set_attr(win, key, &deleted);
    MPI_Win_get_attr(win, key, &value, &flag);
    CHECK(flag && value == (void *)&deleted);
    MPI_Win_delete_attr(win, key);
    CHECK(deleted == 1);
    MPI_Win_get_attr(win, key, &value, &flag);
    CHECK(!flag);
    MPI_Win_set_attr(win, key, &deleted);
    MPI_Win_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);

    MPI_Win_get_name(win, name, &length);
    CHECK(length == 0);
    MPI_Win_set_name(win, "a window");
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 8 && !strcmp(name, "a window"));

    MPI_Group group, world;
    MPI_Win_get_group(win, &group), MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_free(&group), MPI_Group_free(&world);

    MPI_Info info, used;
    char text[64];
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true"), MPI_Info_set(info, "colour", "blue");
    MPI_Win_set_info(win, info);
    MPI_Win_get_info(win, &used);
    length = sizeof text;
    MPI_Info_get_string(used, "no_locks", &length, text, &flag);
    CHECK(flag && !strcmp(text, "true"));
    MPI_Info_get_string(used, "colour", &length, text, &flag);
    CHECK(!flag);
    MPI_Info_free(&info), MPI_Info_free(&used);

    MPI_Errhandler mine, other;
    MPI_Win_get_errhandler(win, &other);
    CHECK(other == MPI_ERRORS_ARE_FATAL);
    MPI_Win_create_errhandler(handler, &mine);
    MPI_Win_set_errhandler(win, mine);
    MPI_Win_get_errhandler(win, &other);
    CHECK(other == mine);
    MPI_Errhandler_free(&other), MPI_Errhandler_free(&mine);
    result = MPI_Put(&ranks, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    CHECK(result == MPI_ERR_RMA_SYNC && raised == MPI_ERR_RMA_SYNC);
    MPI_Win_call_errhandler(win, MPI_ERR_OTHER);
    CHECK(raised == MPI_ERR_OTHER);
    CHECK(MPI_Win_fromint(MPI_Win_toint(win)) == win);
    MPI_Win_free(&win);
    CHECK(deleted == 2 && win == MPI_WIN_NULL);

    /* Many windows at once, over parts of the ranks too. */
    enum { MANY = 40 };
    MPI_Win many[MANY];
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &part);
    for (int i = 0; i < MANY; i++)
        MPI_Win_allocate(1 << 20, 1, MPI_INFO_NULL, i % 2 ? part : MPI_COMM_WORLD, &memory, &many[i]), memory[9] = i;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        MPI_Win_lock_all(0, many[i]);
        MPI_Get(&result, 1, MPI_INT, 0, 36, 1, MPI_INT, many[i]);
        MPI_Win_flush(0, many[i]);
        CHECK(result == i);
        MPI_Win_unlock_all(many[i]);
    }
    for (int i = 0; i < MANY; i++)
        MPI_Win_free(&many[i]);
    MPI_Comm_free(&part);

    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && failures == 0)
        puts("objects: all right");
    MPI_Finalize();
    return failures != 0;
}
