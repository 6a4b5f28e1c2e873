/* Calls of MPI and OpenSHMEM with pointers to shared memory whose pages are not here; the first argument says which. What
 * comes is right, or the job ends with a line. Rank 0 stores and rank 1 calls, in an interval that comes later. */
#include <mpi.h>
#include <shmem.h>
#include <stdio.h>
#include <string.h>
#include <tutti.h>
#include <tutti/parmacs.h>

MAIN_ENV

enum { LONGS = 256 * 512, PIECE = 64 };

struct shared {
    LOCKDEC(names)
    BARDEC(barrier)
    long next, wrong;
    long before[8192];
    long from[LONGS], into[LONGS];
};

static struct shared *all;
static const char *what;
static long private[LONGS], other[LONGS];
static long symmetric[LONGS];

static int is(const char *name) {
    return strcmp(what, name) == 0;
}

static long value(long i) {
    return 3 * i + 1;
}

/* Rank 1 gives, rank 0 has it in private memory. */
static void give(void *buffer, int count, MPI_Datatype type, long me) {
    if (me == 1)
        MPI_Send(buffer, count, type, 0, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(private, LONGS, MPI_LONG, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void call(long me) {
    MPI_Datatype pieces;
    MPI_Win window;
    long *from = me == 1 ? all->from : other, *into = me == 1 ? all->into : private;
    if (is("send"))
        give(all->from, LONGS, MPI_LONG, me);
    if (is("isend") && me == 1) {
        MPI_Request request;
        MPI_Isend(all->from, LONGS, MPI_LONG, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is("isend")) {
        MPI_Recv(private, LONGS, MPI_LONG, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (is("type")) {
        MPI_Type_vector(LONGS / PIECE / 2, PIECE, 2 * PIECE, MPI_LONG, &pieces);
        MPI_Type_commit(&pieces);
        give(all->from, 1, pieces, me);
        MPI_Type_free(&pieces);
        /* As the others have it. */
        for (long i = LONGS / 2 - 1; me == 0 && i >= 0; i--)
            private[i / PIECE * 2 * PIECE + i % PIECE] = private[i];
        for (long i = 0; me == 0 && i < LONGS; i++)
            private[i] = i / PIECE % 2 == 0 ? private[i] : value(i);
    }
    if (is("receive") && me == 0)
        MPI_Send(other, LONGS, MPI_LONG, 1, 1, MPI_COMM_WORLD);
    else if (is("receive"))
        MPI_Recv(all->into, LONGS, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is("bcast"))
        MPI_Bcast(me == 1 ? all->from : private, LONGS, MPI_LONG, 1, MPI_COMM_WORLD);
    if (is("allreduce"))
        MPI_Allreduce(from, into, LONGS, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (is("allgather"))
        MPI_Allgather(from, LONGS / 2, MPI_LONG, into, LONGS / 2, MPI_LONG, MPI_COMM_WORLD);
    if (is("put") || is("get") || is("accumulate")) {
        MPI_Win_create(private, sizeof private, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_fence(0, window);
        if (is("put") && me == 1)
            MPI_Put(all->from, LONGS, MPI_LONG, 0, 0, LONGS, MPI_LONG, window);
        if (is("accumulate") && me == 1)
            MPI_Accumulate(all->from, LONGS, MPI_LONG, 0, 0, LONGS, MPI_LONG, MPI_SUM, window);
        if (is("get") && me == 1)
            MPI_Get(all->into, LONGS, MPI_LONG, 0, 0, LONGS, MPI_LONG, window);
        MPI_Win_fence(0, window);
        MPI_Win_free(&window);
    }
    if (is("window")) {
        MPI_Win_create(me == 1 ? all->into : private, sizeof private, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_fence(0, window);
        if (me == 0)
            MPI_Put(other, LONGS, MPI_LONG, 1, 0, LONGS, MPI_LONG, window);
        MPI_Win_fence(0, window);
        MPI_Win_free(&window);
    }
    if (is("multicast")) {
        tutti_region own, regions[2];
        void *memory = tutti_alloc(sizeof private);
        int is_open = memory && tutti_open(memory, sizeof private, TUTTI_WRITE, &own) == TUTTI_OK;
        MPI_Allgather(&own, sizeof own, MPI_BYTE, regions, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
        if (me == 1 && tutti_multicast(regions, 2, 0, all->from, sizeof private, TUTTI_WAIT) != TUTTI_OK)
            is_open = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0 && is_open)
            memcpy(private, memory, sizeof private);
    }
    if (is("shmem")) {
        shmem_init();
        if (me == 1)
            shmem_long_put(symmetric, all->from, LONGS, 0);
        shmem_barrier_all();
        if (me == 0)
            memcpy(private, symmetric, sizeof private);
    }
}

static void run(void) {
    long me, wrong = 0;
    LOCK(all->names);
    all->next++;
    UNLOCK(all->names);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    me = rank;
    for (long i = 0; i < LONGS; i++) {
        other[i] = value(i);
        if (is("get"))
            private[i] = value(i);
    }
    if (me == 0)
        for (long i = 0; i < LONGS; i++) {
            all->from[i] = value(i);
            all->into[i] = -1;
        }
    BARRIER(all->barrier, 2);
    call(me);
    BARRIER(all->barrier, 2);
    /* Where the data has gone: private memory of rank 0, or what rank 1 has got into shared memory. */
    int is_shared = is("receive") || is("allreduce") || is("allgather") || is("get") || is("window");
    const long *found = is_shared ? all->into : private;
    if (me == 0 && is("allgather")) {
        for (long i = 0; i < LONGS; i++)
            wrong += found[i] != value(i % (LONGS / 2));
    } else if (me == 0) {
        for (long i = 0; i < LONGS; i++)
            wrong += found[i] != value(i);
    }
    if (wrong > 0)
        all->wrong = wrong;
    BARRIER(all->barrier, 2);
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "";
    all = G_MALLOC(sizeof *all);
    all->next = all->wrong = 0;
    LOCKINIT(all->names);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("library: %ld wrong\n", all->wrong);
    MAIN_END;
}
