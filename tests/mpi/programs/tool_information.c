/* MPI 15.3: control and performance variables, before MPI_Init and around messages. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static void settings(void)
{
    int count = 0, length, index = -1;
    char name[64], value[256];
    MPI_T_cvar_handle handle;

    CHECK(MPI_T_cvar_get_num(&count) == MPI_SUCCESS && count > 0);
    CHECK(MPI_T_cvar_get_index("TUTTI_CHECK", &index) == MPI_SUCCESS && index >= 0 && index < count);
    length = 6;
    CHECK(MPI_T_cvar_get_info(index, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    CHECK(length == 12 && strcmp(name, "TUTTI") == 0);
    CHECK(MPI_T_cvar_get_index("nothing", &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_cvar_handle_alloc(count, NULL, &handle, &length) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_get_index("TUTTI_STATS", &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &length) == MPI_SUCCESS && length == 256);
    CHECK(MPI_T_cvar_read(handle, value) == MPI_SUCCESS);
    CHECK(strcmp(value, getenv("TUTTI_STATS") ? getenv("TUTTI_STATS") : "") == 0);
    CHECK(MPI_T_cvar_write(handle, value) == MPI_T_ERR_CVAR_SET_NEVER);
    CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL);
}

static void send_to_next(int rank, int size, int count)
{
    static char out[100], in[100];
    for (int i = 0; i < count; i++) {
        MPI_Sendrecv(out, 100, MPI_CHAR, (rank + 1) % size, 0, in, 100, MPI_CHAR, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void counters(int rank, int size)
{
    int messages, bytes, count, atomic = 0;
    unsigned long long value = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[2];

    CHECK(MPI_T_pvar_get_index("messages_sent", MPI_T_PVAR_CLASS_COUNTER, &messages) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("bytes_sent", MPI_T_PVAR_CLASS_COUNTER, &bytes) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("bytes_sent", MPI_T_PVAR_CLASS_TIMER, &count) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_pvar_get_index("", MPI_T_PVAR_CLASS_TIMER, &count) == MPI_T_ERR_INVALID_NAME);
    /* MPI_T_pvar_readreset needs an atomic variable; another one would be MPI_T_ERR_PVAR_NO_ATOMIC. */
    CHECK(MPI_T_pvar_get_info(bytes, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &atomic) == MPI_SUCCESS &&
          atomic);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, messages, NULL, &handles[0], &count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_T_pvar_handle_alloc(session, bytes, NULL, &handles[1], &count) == MPI_SUCCESS);
    send_to_next(rank, size, 3);
    CHECK(MPI_T_pvar_read(session, handles[0], &value) == MPI_SUCCESS && value == 0);
    CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    send_to_next(rank, size, 7);
    CHECK(MPI_T_pvar_read(session, handles[0], &value) == MPI_SUCCESS && value == 7);
    CHECK(MPI_T_pvar_readreset(session, handles[1], &value) == MPI_SUCCESS && value == 700);
    CHECK(MPI_T_pvar_stop(session, handles[0]) == MPI_SUCCESS);
    send_to_next(rank, size, 2);
    CHECK(MPI_T_pvar_read(session, handles[0], &value) == MPI_SUCCESS && value == 7);
    CHECK(MPI_T_pvar_read(session, handles[1], &value) == MPI_SUCCESS && value == 200);
    value = 1000;
    CHECK(MPI_T_pvar_write(session, handles[0], &value) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_read(session, handles[0], &value) == MPI_SUCCESS && value == 1000);
    CHECK(MPI_T_pvar_handle_free(session, &handles[0]) == MPI_SUCCESS && handles[0] == MPI_T_PVAR_HANDLE_NULL);
    CHECK(MPI_T_pvar_read(session, handles[0], &value) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
}

static void categories(void)
{
    int count = 0, index, pvars = 0, variables[64];
    CHECK(MPI_T_category_get_num(&count) == MPI_SUCCESS && count >= 2);
    CHECK(MPI_T_category_get_index("tutti.messages", &index) == MPI_SUCCESS);
    CHECK(MPI_T_category_get_info(index, NULL, NULL, NULL, NULL, NULL, &pvars, NULL) == MPI_SUCCESS && pvars > 0);
    CHECK(MPI_T_category_get_pvars(index, 64, variables) == MPI_SUCCESS && variables[pvars - 1] == pvars - 1);
}

/* Every performance variable is in one category. */
static void variables_of_categories(void)
{
    int categories, all, of_categories = 0, seen[256] = {0};
    CHECK(MPI_T_category_get_num(&categories) == MPI_SUCCESS && MPI_T_pvar_get_num(&all) == MPI_SUCCESS);
    for (int category = 0; category < categories; category++) {
        int count, variables[256];
        CHECK(MPI_T_category_get_info(category, NULL, NULL, NULL, NULL, NULL, &count, NULL) == MPI_SUCCESS);
        CHECK(MPI_T_category_get_pvars(category, 256, variables) == MPI_SUCCESS);
        for (int i = 0; i < count; i++)
            seen[variables[i]]++;
        of_categories += count;
    }
    CHECK(of_categories == all);
    for (int i = 0; i < all; i++)
        CHECK(seen[i] == 1);
}

static MPI_T_pvar_handle started(MPI_T_pvar_session session, const char *name, int class)
{
    int index, count;
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    CHECK(MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    if (class == MPI_T_PVAR_CLASS_COUNTER)
        CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
    else
        CHECK(MPI_T_pvar_start(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    return handle;
}

static unsigned long long value_of(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long value = 12345;
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    return value;
}

/* A rank sends to itself: nobody else decides what is where. */
static void queues(int rank)
{
    MPI_T_pvar_session session;
    MPI_Request requests[3];
    char in[3], out = 1;
    unsigned long long before, value = 0;
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    MPI_T_pvar_handle posted = started(session, "posted_length", MPI_T_PVAR_CLASS_LEVEL);
    MPI_T_pvar_handle unexpected = started(session, "unexpected_length", MPI_T_PVAR_CLASS_LEVEL);
    before = value_of(session, posted);
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&in[i], 1, MPI_CHAR, rank, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Irecv(&in[2], 1, MPI_CHAR, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[2]);
    CHECK(value_of(session, posted) == before + 3);
    for (int i = 0; i < 3; i++)
        MPI_Send(&out, 1, MPI_CHAR, rank, i, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(value_of(session, posted) == before);
    before = value_of(session, unexpected);
    MPI_Send(&out, 1, MPI_CHAR, rank, 7, MPI_COMM_WORLD);
    CHECK(value_of(session, unexpected) == before + 1);
    MPI_Recv(in, 1, MPI_CHAR, rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(value_of(session, unexpected) == before);
    CHECK(MPI_T_pvar_write(session, posted, &value) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_reset(session, posted) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

/* Every collective operation has one algorithm. */
static void collectives(int size)
{
    static const char *names[] = {"slots", "single_copy", "tree", "direct", "in_parts", "edges", "two_groups"};
    enum { ALGORITHMS = sizeof names / sizeof *names, LARGE = 100000 };
    static int large[LARGE], sum[LARGE];
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[ALGORITHMS];
    unsigned long long all = 0;
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    for (int i = 0; i < ALGORITHMS; i++) {
        char name[64];
        snprintf(name, sizeof name, "collectives_%s", names[i]);
        handles[i] = started(session, name, MPI_T_PVAR_CLASS_COUNTER);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(large, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(large, sum, LARGE, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(large, LARGE, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < ALGORITHMS; i++)
        all += value_of(session, handles[i]);
    /* Alone there is nothing to do for some. */
    CHECK(size == 1 ? all <= 4 : all == 4);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

static void files(const char *folder)
{
    MPI_T_pvar_session session;
    MPI_File file;
    char path[4096], data[1000] = {0};
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    MPI_T_pvar_handle read = started(session, "file_bytes_read", MPI_T_PVAR_CLASS_COUNTER);
    MPI_T_pvar_handle written = started(session, "file_bytes_written", MPI_T_PVAR_CLASS_COUNTER);
    snprintf(path, sizeof path, "%s/tutti-variables-%ld", folder, (long)getpid());
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    MPI_File_write_at(file, 0, data, 1000, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 500, data, 1000, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    CHECK(value_of(session, written) == 1000);
    CHECK(value_of(session, read) == 500);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    int provided, rank, size, number;
    CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    settings();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    counters(rank, size);
    categories();
    variables_of_categories();
    queues(rank);
    collectives(size);
    files(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    return finish("tool_information");
}
