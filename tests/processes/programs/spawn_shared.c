/* Parents and their children have windows and a file together, over one communicator. The program is its own
   child: "child" as its argument. Parents have the name of the file as theirs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "rank %d of %d, line %d: expected %s\n", rank, size, __LINE__, #condition);      \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                                    \
        }                                                                                                    \
    } while (0)

/* Every rank writes into every other one's memory, reads there, and adds to a number of rank 0. */
static void use(MPI_Win win, long *own, MPI_Aint longs)
{
    EXPECT(longs >= size + 1);
    for (int at = 0; at < size + 1; at++)
        own[at] = 0;
    MPI_Win_fence(0, win);
    for (int to = 0; to < size; to++) {
        long value = 1000 * rank + to;
        MPI_Put(&value, 1, MPI_LONG, to, rank, 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
    }
    for (int from = 0; from < size; from++)
        EXPECT(own[from] == 1000 * from + rank);
    for (int round = 0; round < 20; round++) {
        long one = 1, before;
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, size, MPI_SUM, win);
        MPI_Win_unlock(0, win);
        EXPECT(before >= 0 && before < 20 * size);
    }
    MPI_Win_fence(0, win);
    long sum, there;
    MPI_Win_lock_all(0, win);
    MPI_Get(&sum, 1, MPI_LONG, 0, size, 1, MPI_LONG, win);
    MPI_Get(&there, 1, MPI_LONG, size - 1, rank, 1, MPI_LONG, win);
    MPI_Win_unlock_all(win);
    EXPECT(sum == 20 * size && there == 1000 * rank + size - 1);
    MPI_Win_fence(0, win);
}

static void windows(MPI_Comm both, int is_one_node)
{
    MPI_Aint bytes = (size + 1) * (MPI_Aint)sizeof(long);
    MPI_Win win;
    long *own = malloc((size_t)bytes);
    MPI_Win_create(own, bytes, sizeof(long), MPI_INFO_NULL, both, &win);
    use(win, own, size + 1);
    MPI_Win_free(&win);
    free(own);
    MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, both, &own, &win);
    use(win, own, size + 1);
    MPI_Win_free(&win);
    if (is_one_node) {
        MPI_Win_allocate_shared(bytes, sizeof(long), MPI_INFO_NULL, both, &own, &win);
        use(win, own, size + 1);
        long *other;
        int unit;
        MPI_Win_shared_query(win, (rank + 1) % size, &bytes, &unit, &other);
        EXPECT(other[rank] == 1000 * rank + (rank + 1) % size);
        MPI_Win_fence(0, win);
        MPI_Win_free(&win);
    }
}

static void file(MPI_Comm both, const char *name)
{
    enum { COUNT = 1000 };
    MPI_File file;
    MPI_Status status;
    int *data = malloc(COUNT * sizeof(int)), count;
    for (int at = 0; at < COUNT; at++)
        data[at] = rank * COUNT + at;
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File_open(both, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    /* The numbers go round the ranks. */
    MPI_Datatype type;
    MPI_Type_create_resized(MPI_INT, 0, size * (MPI_Aint)sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_File_set_view(file, rank * (MPI_Offset)sizeof(int), MPI_INT, type, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, data, COUNT, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT(count == COUNT);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_sync(file);
    MPI_Barrier(both);
    MPI_File_sync(file);
    MPI_File_read_at_all(file, rank * (MPI_Offset)COUNT, data, COUNT, MPI_INT, &status);
    for (int at = 0; at < COUNT; at++) {
        int place = rank * COUNT + at;
        EXPECT(data[at] == place % size * COUNT + place / size);
    }
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered(file, &rank, 1, MPI_INT, &status);
    int first;
    MPI_File_read_at_all(file, rank, &first, 1, MPI_INT, &status);
    EXPECT(first == rank);
    MPI_Type_free(&type);
    MPI_File_close(&file);
    free(data);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, both, node;
    char name[4096] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    int is_child = parent != MPI_COMM_NULL;
    if (!is_child) {
        char *arguments[] = {"child", NULL};
        MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parent,
                       MPI_ERRCODES_IGNORE);
        snprintf(name, sizeof name, "%s", argv[1]);
    }
    MPI_Intercomm_merge(parent, is_child, &both);
    MPI_Comm_rank(both, &rank);
    MPI_Comm_size(both, &size);
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, both);
    int mates;
    MPI_Comm_split_type(both, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &mates);
    windows(both, mates == size);
    int me = rank, all = size;
    MPI_Comm_rank(node, &rank);
    size = mates;
    windows(node, 1);
    rank = me;
    size = all;
    file(both, name);
    /* The children's own world too. */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    windows(MPI_COMM_WORLD, 0);
    MPI_Comm_free(&node);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    if (!is_child && rank == 0)
        puts("windows and files are right");
    return 0;
}
