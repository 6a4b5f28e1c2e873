/* Two users of the library in two threads, each of which promises for its own calls alone that one thread makes them.
 * Argument: "sessions": two sessions; "world": the world model and a session; both with MPI_THREAD_FUNNELED. "tool": a tool
 * that was started before MPI, with a thread of its own, beside MPI_Init.
 * The first user of rank 0 waits in a receive while the second one opens its session. Two ranks. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 20000

static atomic_int wrong, is_open, is_over;

#define CHECK(holds) ((holds) ? 0 : (atomic_fetch_add(&wrong, 1), fprintf(stderr, "line %d: expected %s\n", __LINE__, #holds)))

static void work(MPI_Comm comm, int user)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < ROUNDS; i++) {
        int sent = 1000000 * user + 10 * i + rank, got = -1, left = (rank + size - 1) % size;
        MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, user, &got, 1, MPI_INT, left, user, comm, MPI_STATUS_IGNORE);
        if (got != 1000000 * user + 10 * i + left) {
            CHECK(got == 1000000 * user + 10 * i + left);
            return;
        }
        if (i % 16 == 0) {
            MPI_Datatype type;
            int elements = 0, sum = 0;
            MPI_Type_vector(2 + user, 1, 2, MPI_INT, &type);
            MPI_Type_commit(&type);
            MPI_Type_size(type, &elements);
            MPI_Type_free(&type);
            MPI_Allreduce(&elements, &sum, 1, MPI_INT, MPI_SUM, comm);
            CHECK(sum == size * (2 + user) * (int)sizeof(int));
        }
    }
}

static MPI_Session opened(void)
{
    MPI_Session session;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_FUNNELED");
    MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Info_free(&info);
    return session;
}

static MPI_Comm comm_of(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void *second(void *arg)
{
    MPI_Session session = opened();
    MPI_Comm comm = comm_of(session, "second");
    (void)arg;
    atomic_store(&is_open, 1);
    work(comm, 2);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    return NULL;
}

/* Rank 1 sends when its second user has met that of rank 0, whose first one waits meanwhile. */
static void both(MPI_Comm comm)
{
    pthread_t thread;
    int rank, from = -1;
    MPI_Comm_rank(comm, &rank);
    pthread_create(&thread, NULL, second, NULL);
    if (rank == 1) {
        while (!atomic_load(&is_open))
            sched_yield();
        MPI_Send(&rank, 1, MPI_INT, 0, 77, comm);
    } else {
        MPI_Recv(&from, 1, MPI_INT, 1, 77, comm, MPI_STATUS_IGNORE);
        CHECK(from == 1);
    }
    work(comm, 1);
    pthread_join(thread, NULL);
}

static void *tool(void *arg)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    int count;
    unsigned long long value = 0;
    (void)arg;
    while (!atomic_load(&is_over)) {
        CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
        CHECK(MPI_T_pvar_handle_alloc(session, 0, NULL, &handle, &count) == MPI_SUCCESS);
        for (int i = 0; i < 100; i++)
            MPI_T_pvar_read(session, handle, &value);
        CHECK(MPI_T_pvar_handle_free(session, &handle) == MPI_SUCCESS);
        CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
    }
    return NULL;
}

static void beside_tool(void)
{
    const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    pthread_t thread;
    int provided;
    for (int i = 0; i < 4; i++) {
        CHECK(MPI_T_init_thread(levels[i], &provided) == MPI_SUCCESS);
        CHECK(provided >= levels[i]);
        if (i < 2)
            CHECK(provided == levels[i]);
    }
    MPI_Init(NULL, NULL);
    MPI_Query_thread(&provided);
    CHECK(provided == MPI_THREAD_SINGLE);
    pthread_create(&thread, NULL, tool, NULL);
    work(MPI_COMM_WORLD, 1);
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
    MPI_Finalize();
    for (int i = 0; i < 4; i++)
        MPI_T_finalize();
}

int main(int argc, char **argv)
{
    int provided;
    if (argc > 1 && strcmp(argv[1], "tool") == 0) {
        beside_tool();
    } else if (argc > 1 && strcmp(argv[1], "world") == 0) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
        both(MPI_COMM_WORLD);
        MPI_Finalize();
    } else {
        MPI_Session session = opened();
        MPI_Comm comm = comm_of(session, "first");
        both(comm);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    puts(wrong ? "wrong" : "two users: ok");
    return wrong != 0;
}
