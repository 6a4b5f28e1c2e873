/* MPI 15.3.8: events and their source: what is raised, which callbacks get it and when, what is dropped, each error. */
#include "check.h"

enum { UNEXPECTED, STARTED, ANSWERED, COLLECTIVE, AGGREGATED, EVENTS };
static const char *const names[EVENTS] = {"tutti.unexpected", "tutti.rendezvous_started",
                                          "tutti.rendezvous_answered", "tutti.collective",
                                          "tutti.file_aggregated"};
static const MPI_T_cb_safety levels[4] = {MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_MPI_RESTRICTED,
                                          MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE};
static int indexes[EVENTS], rank, size;

struct seen {
    int calls, freed, frees_itself, calls_mpi, reads_variable;
    long long dropped;
    int first, second, displaced[2], source, code, code_beyond;
    unsigned long long third, displaced_third;
    MPI_Count stamp;
    MPI_T_cb_safety safety, freed_safety;
    MPI_T_event_instance instance;
    int only_tag;
};

static void on_free(MPI_T_event_registration handle, MPI_T_cb_safety safety, void *data)
{
    struct seen *seen = data;
    (void)handle;
    seen->freed++;
    seen->freed_safety = safety;
}

static MPI_T_pvar_session session;
static MPI_T_pvar_handle variable;

static void on_event(MPI_T_event_instance instance, MPI_T_event_registration handle, MPI_T_cb_safety safety, void *data)
{
    struct seen *seen = data;
    unsigned long long bytes[2];
    int tag = 0;
    /* The message behind those that are counted may be unexpected too. */
    if (seen->only_tag && (MPI_T_event_read(instance, 1, &tag) != MPI_SUCCESS || tag != seen->only_tag))
        return;
    seen->calls++;
    seen->safety = safety;
    seen->instance = instance;
    CHECK(MPI_T_event_read(instance, 0, &seen->first) == MPI_SUCCESS);
    CHECK(MPI_T_event_read(instance, 1, &seen->second) == MPI_SUCCESS);
    seen->code_beyond = MPI_T_event_read(instance, 9, &seen->third);
    if (MPI_T_event_read(instance, 2, &seen->third) == MPI_SUCCESS) {
        CHECK(MPI_T_event_copy(instance, bytes) == MPI_SUCCESS);
        memcpy(seen->displaced, bytes, 8);
        seen->displaced_third = bytes[1];
    }
    CHECK(MPI_T_event_get_timestamp(instance, &seen->stamp) == MPI_SUCCESS);
    CHECK(MPI_T_event_get_source(instance, &seen->source) == MPI_SUCCESS);
    if (seen->reads_variable)
        seen->code = MPI_T_pvar_read(session, variable, &bytes[0]);
    if (seen->calls_mpi) {
        /* An operation that raises the same event. */
        MPI_Request request;
        MPI_Ibarrier(MPI_COMM_SELF, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (seen->frees_itself) {
        CHECK(MPI_T_event_handle_free(handle, seen, on_free) == MPI_SUCCESS);
        CHECK(seen->freed == 0);
        CHECK(MPI_T_event_handle_free(handle, seen, on_free) == MPI_T_ERR_INVALID_HANDLE);
    }
}

static void on_dropped(MPI_Count count, MPI_T_event_registration handle, int source, MPI_T_cb_safety safety, void *data)
{
    struct seen *seen = data;
    (void)handle;
    CHECK(source == 0 && safety == MPI_T_CB_REQUIRE_NONE);
    seen->dropped += count;
}

static MPI_T_event_registration watch(int event, MPI_T_cb_safety level, struct seen *seen)
{
    MPI_T_event_registration handle;
    CHECK(MPI_T_event_handle_alloc(indexes[event], NULL, MPI_INFO_NULL, &handle) == MPI_SUCCESS);
    CHECK(MPI_T_event_register_callback(handle, level, MPI_INFO_NULL, seen, on_event) == MPI_SUCCESS);
    return handle;
}

static void release(MPI_T_event_registration handle, struct seen *seen)
{
    int before = seen->freed;
    CHECK(MPI_T_event_handle_free(handle, seen, on_free) == MPI_SUCCESS && seen->freed == before + 1);
}

static void descriptions(void)
{
    int count = 0, elements, length, value, members = 0, listed[16];
    MPI_Datatype types[4];
    MPI_Aint displacements[4];
    MPI_T_enum enumeration;
    MPI_T_source_order order;
    MPI_Count ticks, most, stamp, later;
    MPI_Info info = MPI_INFO_NULL;
    char name[64], all[64];

    CHECK(MPI_T_event_get_num(&count) == MPI_SUCCESS && count >= EVENTS);
    for (int i = 0; i < EVENTS; i++)
        CHECK(MPI_T_event_get_index(names[i], &indexes[i]) == MPI_SUCCESS && indexes[i] < count);
    CHECK(MPI_T_event_get_index("nothing", &value) == MPI_T_ERR_INVALID_NAME);
    elements = 4;
    length = sizeof all;
    CHECK(MPI_T_event_get_info(indexes[UNEXPECTED], all, &length, &value, types, displacements, &elements, &enumeration,
                               &info, NULL, NULL, NULL) == MPI_SUCCESS);
    CHECK(elements == 3 && strcmp(all, names[UNEXPECTED]) == 0 && info != MPI_INFO_NULL);
    CHECK(types[0] == MPI_INT && types[1] == MPI_INT && types[2] == MPI_UNSIGNED_LONG_LONG);
    CHECK(displacements[0] == 0 && displacements[1] == 4 && displacements[2] == 8);
    MPI_Info_free(&info);
    elements = 1;
    types[1] = MPI_CHAR;
    CHECK(MPI_T_event_get_info(indexes[UNEXPECTED], NULL, NULL, NULL, types, NULL, &elements, NULL, NULL, NULL, NULL,
                               NULL) == MPI_SUCCESS);
    CHECK(elements == 3 && types[1] == MPI_CHAR);
    CHECK(MPI_T_event_get_info(count, NULL, NULL, NULL, NULL, NULL, &elements, NULL, NULL, NULL, NULL, NULL) ==
          MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_enum_get_info(enumeration, &value, NULL, NULL) == MPI_SUCCESS && value == 3);
    length = sizeof name;
    CHECK(MPI_T_enum_get_item(enumeration, 2, &value, name, &length) == MPI_SUCCESS);
    CHECK(value == 2 && strcmp(name, "bytes") == 0 && length == 6);
    CHECK(MPI_T_enum_get_item(enumeration, 3, &value, name, &length) == MPI_T_ERR_INVALID_ITEM);
    CHECK(MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &value, name, &length) == MPI_T_ERR_INVALID);

    CHECK(MPI_T_source_get_num(&count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_T_source_get_info(0, NULL, NULL, NULL, NULL, &order, &ticks, &most, &info) == MPI_SUCCESS);
    CHECK(order == MPI_T_SOURCE_UNORDERED && ticks == 1000000000 && most > 0 && info != MPI_INFO_NULL);
    MPI_Info_free(&info);
    CHECK(MPI_T_source_get_info(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_source_get_timestamp(0, &stamp) == MPI_SUCCESS && MPI_T_source_get_timestamp(0, &later) == MPI_SUCCESS);
    CHECK(later >= stamp && stamp > 0);
    CHECK(MPI_T_source_get_timestamp(-1, &stamp) == MPI_T_ERR_INVALID_INDEX);

    CHECK(MPI_T_category_get_index("tutti.messages", &value) == MPI_SUCCESS);
    CHECK(MPI_T_category_get_num_events(value, &members) == MPI_SUCCESS && members == 3);
    CHECK(MPI_T_category_get_events(value, 16, listed) == MPI_SUCCESS && listed[2] == indexes[ANSWERED]);
    listed[1] = -7;
    CHECK(MPI_T_category_get_events(value, 1, listed) == MPI_SUCCESS && listed[1] == -7);
    CHECK(MPI_T_category_get_num_events(99, &members) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_category_get_events(99, 1, listed) == MPI_T_ERR_INVALID_INDEX);
}

static void handles(void)
{
    struct seen seen = {0};
    MPI_T_event_registration handle = watch(UNEXPECTED, MPI_T_CB_REQUIRE_NONE, &seen), other;
    MPI_Info info, used = MPI_INFO_NULL;
    MPI_Info_create(&info);
    CHECK(MPI_T_event_handle_alloc(99, NULL, MPI_INFO_NULL, &other) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_handle_set_info(handle, info) == MPI_SUCCESS);
    CHECK(MPI_T_event_handle_get_info(handle, &used) == MPI_SUCCESS && used != MPI_INFO_NULL && used != info);
    MPI_Info_free(&used);
    CHECK(MPI_T_event_callback_set_info(handle, levels[0], info) == MPI_SUCCESS);
    CHECK(MPI_T_event_callback_get_info(handle, levels[0], &used) == MPI_SUCCESS && used != MPI_INFO_NULL);
    MPI_Info_free(&used);
    CHECK(MPI_T_event_callback_get_info(handle, levels[1], &used) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_event_callback_set_info(handle, 77, info) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_event_register_callback(handle, 77, info, NULL, on_event) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_event_set_dropped_handler(handle, on_dropped) == MPI_SUCCESS);
    CHECK(MPI_T_event_set_dropped_handler(handle, NULL) == MPI_SUCCESS);
    release(handle, &seen);
    CHECK(MPI_T_event_handle_set_info(handle, info) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_handle_get_info(handle, &used) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_register_callback(handle, levels[0], info, NULL, on_event) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_callback_set_info(handle, levels[0], info) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_callback_get_info(handle, levels[0], &used) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_set_dropped_handler(handle, on_dropped) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_event_handle_free(handle, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
    MPI_Info_free(&info);
}

/* Rank 1 sends `count` messages of 40 bytes with tag 5; rank 0 takes one with tag 6 first, so that they wait. */
static MPI_Request *sent;
static int sent_count, taken;

static void unexpected(int count)
{
    char data[40] = {0};
    if (rank == 1) {
        static MPI_Request requests[3000];
        for (int i = 0; i < count; i++)
            MPI_Isend(data, 40, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &requests[i]);
        MPI_Send(data, 1, MPI_CHAR, 0, 6, MPI_COMM_WORLD);
        sent = requests;
        sent_count = count;
    } else if (rank == 0) {
        MPI_Recv(data, 1, MPI_CHAR, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void take(int count)
{
    char data[40];
    for (int i = 0; rank == 0 && i < count; i++)
        MPI_Recv(data, 40, MPI_CHAR, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* Those that are left are received later: only their last take ends the sends. */
    if (rank == 1 && (taken += count) == sent_count) {
        MPI_Waitall(sent_count, sent, MPI_STATUSES_IGNORE);
        taken = 0;
    }
}

static void each_level(void)
{
    for (int level = 0; level < 4; level++) {
        struct seen seen = {.reads_variable = 1, .only_tag = 5};
        MPI_T_event_registration handle = watch(UNEXPECTED, levels[level], &seen);
        MPI_Count before, after;
        int flag, value;
        MPI_T_source_get_timestamp(0, &before);
        MPI_Barrier(MPI_COMM_WORLD);
        unexpected(2);
        if (rank == 0 && level == 0) {
            MPI_Initialized(&flag);
            MPI_Comm_rank(MPI_COMM_WORLD, &flag);
            MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        take(1);
        MPI_T_source_get_timestamp(0, &after);
        if (rank == 0) {
            CHECK(seen.calls == 2);
            CHECK(seen.safety == (level == 0 ? MPI_T_CB_REQUIRE_NONE : MPI_T_CB_REQUIRE_MPI_RESTRICTED));
            CHECK(seen.code == (level == 0 ? MPI_SUCCESS : MPI_T_ERR_NOT_ACCESSIBLE));
            CHECK(seen.first == 1 && seen.second == 5 && seen.third == 40);
            CHECK(seen.displaced[0] == 1 && seen.displaced[1] == 5 && seen.displaced_third == 40);
            CHECK(seen.code_beyond == MPI_T_ERR_INVALID_INDEX);
            CHECK(seen.source == 0 && seen.stamp >= before && seen.stamp <= after);
            CHECK(MPI_T_event_read(seen.instance, 0, &value) == MPI_T_ERR_INVALID_HANDLE);
            CHECK(MPI_T_event_copy(seen.instance, &value) == MPI_T_ERR_INVALID_HANDLE);
            CHECK(MPI_T_event_get_timestamp(seen.instance, &after) == MPI_T_ERR_INVALID_HANDLE);
            CHECK(MPI_T_event_get_source(seen.instance, &value) == MPI_T_ERR_INVALID_HANDLE);
        }
        /* Without a callback it is not called. */
        CHECK(MPI_T_event_register_callback(handle, levels[level], MPI_INFO_NULL, NULL, NULL) == MPI_SUCCESS);
        take(1);
        MPI_Barrier(MPI_COMM_WORLD);
        unexpected(1);
        take(1);
        if (rank == 0)
            CHECK(seen.calls == 2);
        release(handle, &seen);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void freed_in_its_callback(void)
{
    for (int level = 0; level < 2; level++) {
        struct seen seen = {.frees_itself = 1, .only_tag = 5};
        MPI_T_event_registration handle = watch(UNEXPECTED, levels[level], &seen);
        MPI_Barrier(MPI_COMM_WORLD);
        unexpected(3);
        take(3);
        if (rank == 0) {
            CHECK(seen.calls == 1 && seen.freed == 1);
            CHECK(seen.freed_safety == seen.safety);
            CHECK(MPI_T_event_handle_free(handle, &seen, on_free) == MPI_T_ERR_INVALID_HANDLE);
        } else {
            seen.frees_itself = 0;
            release(handle, &seen);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void dropped(void)
{
    /* What a callback causes itself. */
    struct seen seen = {.calls_mpi = 1};
    MPI_Request request;
    MPI_T_event_registration handle = watch(COLLECTIVE, MPI_T_CB_REQUIRE_NONE, &seen);
    CHECK(MPI_T_event_set_dropped_handler(handle, on_dropped) == MPI_SUCCESS);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    release(handle, &seen);
    CHECK(seen.calls == 1 && seen.dropped == 1 && seen.first == 0 && seen.second == size);

    /* More than can wait. */
    struct seen many = {0};
    handle = watch(UNEXPECTED, MPI_T_CB_REQUIRE_NONE, &many);
    CHECK(MPI_T_event_set_dropped_handler(handle, on_dropped) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    unexpected(3000);
    take(1);
    if (rank == 0)
        CHECK(many.calls >= 1024 && many.dropped > 0 && many.calls + many.dropped <= 3001);
    take(2999);
    release(handle, &many);
    if (rank == 0)
        CHECK(many.calls + many.dropped >= 3000);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void others(void)
{
    struct seen started = {0}, answered = {0}, aggregated = {0};
    MPI_T_event_registration handles[3] = {watch(STARTED, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE, &started),
                                           watch(ANSWERED, MPI_T_CB_REQUIRE_THREAD_SAFE, &answered),
                                           watch(AGGREGATED, MPI_T_CB_REQUIRE_NONE, &aggregated)};
    static char data[1 << 20];
    MPI_Request request;
    if (rank == 1) {
        MPI_Issend(data, sizeof data, MPI_CHAR, 0, 8, MPI_COMM_WORLD, &request);
        MPI_Send(data, 1, MPI_CHAR, 0, 9, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(started.calls == 1 && started.first == 0 && started.second == 8 && started.third == sizeof data);
        CHECK(answered.calls >= 1 && answered.first == 0 && answered.second == 8 && answered.third == sizeof data);
        CHECK(answered.stamp >= started.stamp);
    } else if (rank == 0) {
        MPI_Recv(data, 1, MPI_CHAR, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, sizeof data, MPI_CHAR, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(started.calls == 0);
    }
    MPI_File file;
    MPI_Datatype vector;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    char path[64] = "";
    if (rank == 0)
        snprintf(path, sizeof path, "/tmp/tool_events.%d", (int)MPI_Wtime());
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file) ==
          MPI_SUCCESS);
    MPI_Type_vector(64, 8, 8 * size, MPI_CHAR, &vector);
    MPI_Type_commit(&vector);
    MPI_File_set_view(file, 8 * rank, MPI_CHAR, vector, "native", info);
    MPI_File_write_all(file, data, 512, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Type_free(&vector);
    MPI_Info_free(&info);
    release(handles[0], &started);
    release(handles[1], &answered);
    release(handles[2], &aggregated);
    CHECK(aggregated.calls == 1 && aggregated.first == 1 && aggregated.second >= 1 && aggregated.third >= 1);
}

static void not_initialized(void)
{
    int n = 0;
    MPI_Count stamp;
    MPI_T_event_registration handle = 0;
    MPI_T_event_instance instance = 0;
    MPI_Info info;
    const int code = MPI_T_ERR_NOT_INITIALIZED;
    CHECK(MPI_T_source_get_num(&n) == code && MPI_T_source_get_timestamp(0, &stamp) == code);
    CHECK(MPI_T_source_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == code);
    CHECK(MPI_T_event_get_num(&n) == code && MPI_T_event_get_index(names[0], &n) == code);
    CHECK(MPI_T_event_get_info(0, NULL, NULL, NULL, NULL, NULL, &n, NULL, NULL, NULL, NULL, NULL) == code);
    CHECK(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &handle) == code);
    CHECK(MPI_T_event_handle_set_info(handle, MPI_INFO_NULL) == code);
    CHECK(MPI_T_event_handle_get_info(handle, &info) == code);
    CHECK(MPI_T_event_handle_free(handle, NULL, NULL) == code);
    CHECK(MPI_T_event_register_callback(handle, levels[0], MPI_INFO_NULL, NULL, on_event) == code);
    CHECK(MPI_T_event_callback_set_info(handle, levels[0], MPI_INFO_NULL) == code);
    CHECK(MPI_T_event_callback_get_info(handle, levels[0], &info) == code);
    CHECK(MPI_T_event_set_dropped_handler(handle, on_dropped) == code);
    CHECK(MPI_T_event_read(instance, 0, &n) == code && MPI_T_event_copy(instance, &n) == code);
    CHECK(MPI_T_event_get_timestamp(instance, &stamp) == code && MPI_T_event_get_source(instance, &n) == code);
    CHECK(MPI_T_category_get_num_events(0, &n) == code && MPI_T_category_get_events(0, 1, &n) == code);
}

int main(int argc, char **argv)
{
    int provided, index, count;
    not_initialized();
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    descriptions();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(MPI_T_pvar_get_index("messages_sent", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &variable, &count) == MPI_SUCCESS);
    handles();
    each_level();
    freed_in_its_callback();
    dropped();
    others();
    /* A handle that is left goes with the interface. */
    static struct seen left;
    watch(UNEXPECTED, MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE, &left);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    unexpected(1);
    take(1);
    CHECK(left.calls == 0);
    not_initialized();
    return finish("tool_events");
}
