/* MPI 15.3: control and performance variables, before MPI_Init and around messages. */
#include <stdlib.h>
#include <string.h>

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
    int messages, bytes, count;
    unsigned long long value = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[2];

    CHECK(MPI_T_pvar_get_index("messages_sent", MPI_T_PVAR_CLASS_COUNTER, &messages) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("bytes_sent", MPI_T_PVAR_CLASS_COUNTER, &bytes) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("bytes_sent", MPI_T_PVAR_CLASS_TIMER, &count) == MPI_T_ERR_INVALID_NAME);
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
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    return finish("tool_information");
}
