/* All ways by which data go from one rank to another, each with contents that are checked. Ranks may stand in
   namespaces of their own. A way may be refused by an error of the window; never may a byte be wrong.
   Prints "rank R: WAY right" or "rank R: WAY refused"; ends with status 1 after a wrong byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST (5 << 20)

/* Where all processes have them: the number of a wrong process would name memory that is there too. */
static unsigned char out[MOST], in[MOST], target[MOST];
static int rank, ranks, wrong;

static unsigned char byte_of(int from, int round, size_t at)
{
    return (unsigned char)(from * 37 + round * 11 + at * 7 + (at >> 9) + 1);
}

static void fill(unsigned char *place, int from, int round, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++)
        place[at] = byte_of(from, round, at);
}

static void check(const char *way, const unsigned char *place, int from, int round, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++)
        if (place[at] != byte_of(from, round, at)) {
            printf("rank %d: %s WRONG at byte %zu of %zu\n", rank, way, at, bytes);
            fflush(stdout);
            wrong = 1;
            return;
        }
}

static void say(const char *way, int refused)
{
    printf("rank %d: %s %s\n", rank, way, refused ? "refused" : "right");
    fflush(stdout);
}

static void messages(void)
{
    static const size_t sizes[] = {8, 700, 3000, 20000, 70000, 300000, 1 << 20, MOST};
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Datatype gaps;
    MPI_Request requests[2];
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int round = 0; round < 4; round++) {
            int bytes = (int)sizes[i];
            fill(out, rank, round, sizes[i]);
            memset(in, 0, sizes[i]);
            if (round == 0) { /* The sender comes first. */
                MPI_Isend(out, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[0]);
                MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            } else if (round == 1) { /* The receiver comes first. */
                MPI_Irecv(in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, &requests[0]);
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Send(out, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD);
                MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            } else if (round == 2) { /* Both wait in the library. */
                MPI_Sendrecv(out, bytes, MPI_BYTE, to, 1, in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
            } else { /* With gaps, synchronously. */
                MPI_Type_vector(bytes / 4, 2, 4, MPI_BYTE, &gaps);
                MPI_Type_commit(&gaps);
                MPI_Irecv(in, bytes / 4 * 2, MPI_BYTE, from, 1, MPI_COMM_WORLD, &requests[0]);
                MPI_Issend(out, 1, gaps, to, 1, MPI_COMM_WORLD, &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
                MPI_Type_free(&gaps);
                for (int at = bytes / 4 * 2; at-- > 0;)
                    in[at / 2 * 4 + at % 2] = in[at];
                for (int at = 0; at < bytes; at++)
                    if (at % 4 >= 2 || at >= bytes / 4 * 4) in[at] = byte_of(from, round, at);
            }
            check("messages", in, from, round, sizes[i]);
        }
    say("messages", 0);
}

static void collectives(void)
{
    enum { EACH = 1 << 18 };
    unsigned char *all = malloc((size_t)EACH * ranks), *parts = malloc((size_t)EACH * ranks);
    int *numbers = (int *)out, *sums = (int *)in, count = EACH / (int)sizeof(int);
    for (int round = 0; round < 2; round++) {
        int root = round % ranks;
        if (rank == root) fill(in, root, round, MOST);
        MPI_Bcast(in, MOST, MPI_BYTE, root, MPI_COMM_WORLD);
        check("broadcast", in, root, round, MOST);
        fill(out, rank, round, EACH);
        MPI_Allgather(out, EACH, MPI_BYTE, all, EACH, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < ranks; from++) check("allgather", all + (size_t)from * EACH, from, round, EACH);
        for (int to = 0; to < ranks; to++) fill(parts + (size_t)to * EACH, rank + to, round, EACH);
        MPI_Alltoall(parts, EACH, MPI_BYTE, all, EACH, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < ranks; from++) check("alltoall", all + (size_t)from * EACH, from + rank, round, EACH);
        for (int i = 0; i < count; i++) numbers[i] = rank + i;
        if (round == 0)
            MPI_Allreduce(numbers, sums, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else {
            memcpy(sums, numbers, EACH);
            MPI_Allreduce(MPI_IN_PLACE, sums, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        for (int i = 0; i < count; i++)
            if (sums[i] != ranks * i + ranks * (ranks - 1) / 2) {
                printf("rank %d: allreduce WRONG\n", rank);
                wrong = 1;
                break;
            }
    }
    free(all);
    free(parts);
    say("collectives", 0);
}

/* One window; memory that the kernel would have to reach may be refused. `bases`: where that of each rank begins. */
static void window(const char *way, MPI_Win win, unsigned char *memory, const MPI_Aint *bases)
{
    enum { BYTES = 1 << 18 };
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, refused = 0;
    long one = 1, *counter = (long *)(memory + BYTES), before;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(memory, 0xee, BYTES);
    *counter = 0;
    fill(out, rank, 0, BYTES);
    MPI_Win_fence(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    refused |= MPI_Put(out, BYTES, MPI_BYTE, to, bases[to], BYTES, MPI_BYTE, win) != MPI_SUCCESS;
    MPI_Win_fence(0, win);
    int theirs = refused, mine = 0;
    MPI_Sendrecv(&theirs, 1, MPI_INT, to, 2, &mine, 1, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (mine) {
        for (int at = 0; at < BYTES; at++)
            if (memory[at] != 0xee) wrong = 1;
        fill(memory, from, 0, BYTES);
    } else
        check(way, memory, from, 0, BYTES);
    MPI_Win_fence(0, win);
    memset(in, 0, BYTES);
    int got = MPI_Get(in, BYTES, MPI_BYTE, to, bases[to], BYTES, MPI_BYTE, win) == MPI_SUCCESS;
    MPI_Win_fence(0, win);
    if (got) check(way, in, rank, 0, BYTES);
    refused |= !got;
    int added = 0, total;
    for (int target_rank = 0; target_rank < ranks; target_rank++) {
        MPI_Win_lock(MPI_LOCK_SHARED, target_rank, 0, win);
        int done = MPI_Fetch_and_op(&one, &before, MPI_LONG, target_rank, bases[target_rank] + BYTES, MPI_SUM, win) == MPI_SUCCESS;
        MPI_Win_unlock(target_rank, win);
        refused |= !done;
        MPI_Reduce(&done, &total, 1, MPI_INT, MPI_SUM, target_rank, MPI_COMM_WORLD);
        if (target_rank == rank) added = total;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    if (*counter != added) {
        printf("rank %d: %s counter WRONG: %ld, not %d\n", rank, way, *counter, added);
        wrong = 1;
    }
    MPI_Win_unlock(rank, win);
    say(way, refused);
}

static void windows(void)
{
    MPI_Win win;
    unsigned char *memory;
    MPI_Aint own, bases[16] = {0};
    MPI_Win_allocate(1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    window("allocated window", win, memory, bases);
    MPI_Win_free(&win);
    MPI_Win_create(target, sizeof target, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    window("window of user memory", win, target, bases);
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, target, sizeof target);
    MPI_Get_address(target, &own);
    MPI_Allgather(&own, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
    window("dynamic window", win, target, bases);
    MPI_Win_detach(win, target);
    MPI_Win_free(&win);
}

static void files(const char *name)
{
    enum { BYTES = 1 << 18 };
    MPI_File file;
    int from = (rank + 1) % ranks;
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    fill(out, rank, 3, BYTES);
    MPI_File_write_at_all(file, (MPI_Offset)rank * BYTES, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at_all(file, (MPI_Offset)from * BYTES, in, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    check("files", in, from, 3, BYTES);
    MPI_File_close(&file);
    say("files", 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    messages();
    collectives();
    windows();
    files(argv[1]);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong;
}
