/* What calls answer at the edges: empty groups, null requests, texts of all codes, statuses of calls that succeed, and which
 * kinds of memory may be used. */
#include "check.h"

enum { MARK = 4242 };
static int rank, size;

static void of_empty_groups(void)
{
    MPI_Session session;
    MPI_Group own;
    MPI_Comm made = MPI_COMM_SELF;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://SELF", &own);
    CHECK(MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, own, 0, "a", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made) == MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
    made = MPI_COMM_SELF;
    CHECK(MPI_Intercomm_create_from_groups(own, 0, MPI_GROUP_EMPTY, 0, "b", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made) == MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
    made = MPI_COMM_SELF;
    CHECK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "c", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made) == MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
    MPI_Group_free(&own);
    MPI_Session_finalize(&session);
}

static void of_null_requests(void)
{
    MPI_Request none = MPI_REQUEST_NULL;
    int flag = 0;
    CHECK(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag) == MPI_SUCCESS && flag);
    flag = 0;
    CHECK(MPI_Parrived(MPI_REQUEST_NULL, -5, &flag) == MPI_SUCCESS && flag);
    flag = 0;
    CHECK(MPI_Test(&none, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag);
    flag = 0;
    CHECK(MPI_Request_get_status(none, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag);
}

/* Memory lies where the hint asks for it; a hint that is no alignment asks for nothing. */
static void of_aligned_memory(void)
{
    for (size_t bytes = 16; bytes <= 1 << 21; bytes *= 8) {
        char text[24];
        void *memory = NULL;
        MPI_Info info;
        MPI_Info_create(&info);
        snprintf(text, sizeof text, "%zu", bytes);
        MPI_Info_set(info, "mpi_minimum_memory_alignment", text);
        CHECK(MPI_Alloc_mem(100, info, &memory) == MPI_SUCCESS && (uintptr_t)memory % bytes == 0);
        memset(memory, 1, 100);
        MPI_Free_mem(memory);
        MPI_Info_free(&info);
    }
    const char *const none[] = {"0", "-8", "48", "much", "99999999999999999999", "4611686018427387904"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        void *memory = NULL;
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_minimum_memory_alignment", none[i]);
        CHECK(MPI_Alloc_mem(100, info, &memory) == MPI_SUCCESS && memory != NULL);
        MPI_Free_mem(memory);
        MPI_Info_free(&info);
    }
}

static void of_codes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    for (int code = 0; code <= MPI_ERR_LASTCODE; code++) {
        length = 0;
        CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && length > 0 && length == (int)strlen(text));
        CHECK(MPI_Error_class(code, &class) == MPI_SUCCESS);
        if (failures)
            return;
    }
    CHECK(class_of(MPI_Error_string(MPI_ERR_LASTCODE + 12345, text, &length)) == MPI_ERR_ARG);
    const int codes[] = {
        MPI_T_ERR_CANNOT_INIT, MPI_T_ERR_NOT_ACCESSIBLE, MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_NOT_SUPPORTED, MPI_T_ERR_MEMORY,
        MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_INVALID_ITEM, MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_INVALID_HANDLE,
        MPI_T_ERR_INVALID_NAME, MPI_T_ERR_OUT_OF_HANDLES, MPI_T_ERR_OUT_OF_SESSIONS, MPI_T_ERR_CVAR_SET_NOT_NOW,
        MPI_T_ERR_CVAR_SET_NEVER, MPI_T_ERR_PVAR_NO_WRITE, MPI_T_ERR_PVAR_NO_STARTSTOP, MPI_T_ERR_PVAR_NO_ATOMIC,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        CHECK(class_of(codes[i]) == codes[i]);
        CHECK(MPI_Error_string(codes[i], text, &length) == MPI_SUCCESS && strncmp(text, "MPI_T_ERR_", 10) == 0);
    }
}

static void mark(MPI_Status *statuses, int count)
{
    for (int i = 0; i < count; i++)
        statuses[i].MPI_ERROR = MARK;
}

static int marked(const MPI_Status *statuses, int count)
{
    for (int i = 0; i < count; i++)
        if (statuses[i].MPI_ERROR != MARK)
            return 0;
    return 1;
}

/* MPI_ERROR is written when a call gives MPI_ERR_IN_STATUS, and by no other call (3.7.5). */
static void of_statuses(void)
{
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int a[4] = {0}, b[4], count, indices[4], flag, done;
    for (int how = 0; how < 8; how++) {
        for (int i = 0; i < 2; i++) {
            MPI_Irecv(b + i, 1, MPI_INT, rank, i, MPI_COMM_WORLD, requests + i);
            MPI_Isend(a + i, 1, MPI_INT, rank, i, MPI_COMM_WORLD, requests + 2 + i);
        }
        mark(statuses, 4);
        switch (how) {
        case 0: CHECK(MPI_Waitall(4, requests, statuses) == MPI_SUCCESS); break;
        case 1:
            for (flag = 0; !flag;)
                MPI_Testall(4, requests, &flag, statuses);
            break;
        case 2:
            for (done = 0; done < 4; done += count)
                MPI_Waitsome(4, requests, &count, indices, statuses);
            break;
        case 3:
            for (done = 0; done < 4; done += count > 0 ? count : 0)
                MPI_Testsome(4, requests, &count, indices, statuses);
            break;
        case 4:
            for (done = 0; done < 4; done++)
                MPI_Waitany(4, requests, &flag, statuses + done);
            break;
        case 5:
            for (flag = 0; !flag;)
                MPI_Request_get_status_all(4, requests, &flag, statuses);
            break;
        case 6:
            for (flag = 0; !flag;)
                MPI_Request_get_status(requests[0], &flag, statuses);
            break;
        default: MPI_Wait(requests, statuses), MPI_Wait(requests + 1, statuses + 1);
        }
        CHECK(marked(statuses, 4));
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    mark(statuses, 1);
    MPI_Sendrecv(a, 1, MPI_INT, rank, 0, b, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, statuses);
    CHECK(marked(statuses, 1));
    MPI_Isend(a, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, requests);
    MPI_Probe(rank, 0, MPI_COMM_WORLD, statuses);
    CHECK(marked(statuses, 1));
    MPI_Recv(b, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, statuses);
    CHECK(marked(statuses, 1));
    MPI_Wait(requests, statuses);
    CHECK(marked(statuses, 1));
    /* With an error all statuses say how theirs has ended, those before it too. */
    for (int i = 0; i < 3; i++) {
        MPI_Irecv(b + i, 1, MPI_INT, rank, i, MPI_COMM_WORLD, requests + i);
        MPI_Send(a, i == 1 ? 2 : 1, MPI_INT, rank, i, MPI_COMM_WORLD);
    }
    mark(statuses, 4);
    CHECK(class_of(MPI_Waitall(3, requests, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[1].MPI_ERROR == MPI_ERR_TRUNCATE && statuses[2].MPI_ERROR == MPI_SUCCESS);
    CHECK(marked(statuses + 3, 1));
}

static void has_kinds(MPI_Info info)
{
    char value[64] = "";
    int length = sizeof value, flag = 0;
    MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &length, value, &flag);
    CHECK(flag && strcmp(value, "mpi,system") == 0);
    MPI_Info_free(&info);
}

static void of_memory(const char *path)
{
    MPI_Info info;
    MPI_Win win;
    MPI_File file;
    MPI_Session session;
    MPI_Comm copy;
    void *base;
    MPI_Comm_get_info(MPI_COMM_WORLD, &info);
    has_kinds(info);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_get_info(copy, &info);
    has_kinds(info);
    MPI_Comm_free(&copy);
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_get_info(win, &info);
    has_kinds(info);
    MPI_Win_free(&win);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_get_info(session, &info);
    has_kinds(info);
    MPI_Session_finalize(&session);
    if (!path)
        return;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_get_info(file, &info);
    has_kinds(info);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    of_empty_groups();
    of_null_requests();
    of_codes();
    of_aligned_memory();
    of_statuses();
    of_memory(argv[1]);
    return finish("small_answers");
}
