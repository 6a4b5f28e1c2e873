/* What people have reported of other MPI libraries, in programs of our own: errors of tests of many requests, counts
 * above the range of int, packing beyond 4 GiB, pairs of types, categories and hardware, arguments that are nothing.
 * One rank and more. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

enum { TAG = 3, MANY = 3 };

static int rank, size;

/* Tests until all requests are complete; gives the code of the test that completed them. */
static int test_all(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int flag = 0, code = MPI_SUCCESS;
    while (!flag && code == MPI_SUCCESS)
        code = MPI_Testall(count, requests, &flag, statuses);
    CHECK(flag);
    return code;
}

/* All is well: no error, whether statuses are given or not, of plain and of persistent requests. */
static void tests_of_many(void)
{
    int sent[MANY] = {1, 2, 3}, received[MANY];
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY];
    for (int persistent = 0; persistent < 2; persistent++) {
        for (int ignore = 0; ignore < 2; ignore++) {
            for (int i = 0; i < MANY; i++) {
                if (persistent) {
                    MPI_Recv_init(&received[i], 1, MPI_INT, 0, TAG + i, MPI_COMM_SELF, &requests[i]);
                    MPI_Send_init(&sent[i], 1, MPI_INT, 0, TAG + i, MPI_COMM_SELF, &requests[MANY + i]);
                } else {
                    MPI_Irecv(&received[i], 1, MPI_INT, 0, TAG + i, MPI_COMM_SELF, &requests[i]);
                    MPI_Isend(&sent[i], 1, MPI_INT, 0, TAG + i, MPI_COMM_SELF, &requests[MANY + i]);
                }
            }
            if (persistent)
                MPI_Startall(2 * MANY, requests);
            CHECK(test_all(2 * MANY, requests, ignore ? MPI_STATUSES_IGNORE : statuses) == MPI_SUCCESS);
            CHECK(memcmp(sent, received, sizeof sent) == 0);
            for (int i = 0; !ignore && i < MANY; i++)
                CHECK(statuses[i].MPI_SOURCE == 0 && statuses[i].MPI_TAG == TAG + i);
            for (int i = 0; persistent && i < 2 * MANY; i++)
                MPI_Request_free(&requests[i]);
            for (int i = 0; i < 2 * MANY; i++)
                CHECK(requests[i] == MPI_REQUEST_NULL);
        }
    }
}

/* One receive is too short: its status says so, the others are complete, and a persistent request goes on. */
static void error_of_one(void)
{
    int sent[2] = {4, 5}, received[MANY][2], how;
    MPI_Request requests[MANY], out;
    MPI_Status statuses[MANY];
    for (how = 0; how < 4; how++) {
        int persistent = how % 2, waits = how / 2, code;
        for (int i = 0; i < MANY; i++) {
            MPI_Recv_init(received[i], i == 1 ? 1 : 2, MPI_INT, 0, TAG + i, MPI_COMM_SELF, &requests[i]);
            if (!persistent) {
                MPI_Request_free(&requests[i]);
                MPI_Irecv(received[i], i == 1 ? 1 : 2, MPI_INT, 0, TAG + i, MPI_COMM_SELF, &requests[i]);
            }
        }
        if (persistent)
            MPI_Startall(MANY, requests);
        for (int i = 0; i < MANY; i++) {
            MPI_Isend(sent, 2, MPI_INT, 0, TAG + i, MPI_COMM_SELF, &out);
            MPI_Wait(&out, MPI_STATUS_IGNORE);
        }
        code = waits ? MPI_Waitall(MANY, requests, statuses) : test_all(MANY, requests, statuses);
        CHECK(class_of(code) == MPI_ERR_IN_STATUS);
        CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS);
        CHECK(class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
        for (int i = 0; i < MANY; i++)
            CHECK((requests[i] != MPI_REQUEST_NULL) == persistent);
        if (persistent) {
            /* Inactive, and as good as before. */
            MPI_Startall(MANY, requests);
            for (int i = 0; i < MANY; i++)
                MPI_Send(sent, i == 1 ? 1 : 2, MPI_INT, 0, TAG + i, MPI_COMM_SELF);
            CHECK(MPI_Waitall(MANY, requests, statuses) == MPI_SUCCESS && received[1][0] == 4);
            for (int i = 0; i < MANY; i++)
                MPI_Request_free(&requests[i]);
        }
    }
}

static void large_counts(void)
{
    MPI_Status status;
    MPI_Count elements = 3000000000, found = 0, position = 5368709120, extent = 6442450944, room = 0;
    int count = 0, word = 77, back = 0;
    char *memory;
    memset(&status, 0, sizeof status);
    MPI_Status_set_elements_c(&status, MPI_INT, elements);
    CHECK(MPI_Get_count_c(&status, MPI_INT, &found) == MPI_SUCCESS && found == elements);
    CHECK(MPI_Get_count(&status, MPI_INT, &count) == MPI_SUCCESS && count == MPI_UNDEFINED);
    CHECK(MPI_Get_elements(&status, MPI_INT, &count) == MPI_SUCCESS && count == MPI_UNDEFINED);
    CHECK(MPI_Pack_size_c(elements, MPI_INT, MPI_COMM_SELF, &room) == MPI_SUCCESS && room >= 4 * elements);
    /* Behind 5 GiB of a buffer of which one page is touched. */
    memory = mmap(NULL, (size_t)extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
        CHECK(MPI_Pack_c(&word, 1, MPI_INT, memory, extent, &position, MPI_COMM_SELF) == MPI_SUCCESS);
        CHECK(position == 5368709124);
        position -= 4;
        CHECK(memcmp(memory + position, &word, 4) == 0);
        CHECK(MPI_Unpack_c(memory, extent, &position, &back, 1, MPI_INT, MPI_COMM_SELF) == MPI_SUCCESS);
        CHECK(back == 77 && position == 5368709124);
        position = 5368709120;
        CHECK(MPI_Pack_external_c("external32", &word, 1, MPI_INT, memory, extent, &position) == MPI_SUCCESS);
        CHECK(position == 5368709124 && memory[5368709123] == 77);
        munmap(memory, (size_t)extent);
    }
}

/* A pair that is no predefined type, too, is one, or none at all. */
static void pairs(void)
{
    MPI_Datatype pair, again;
    int integers, addresses, types, combiner;
    CHECK(MPI_Type_get_value_index(MPI_FLOAT, MPI_INT, &pair) == MPI_SUCCESS && pair == MPI_FLOAT_INT);
    CHECK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair) == MPI_SUCCESS && pair == MPI_DOUBLE_INT);
    CHECK(MPI_Type_get_value_index(MPI_INT, MPI_INT, &pair) == MPI_SUCCESS && pair == MPI_2INT);
    CHECK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, &pair) == MPI_SUCCESS);
    if (pair != MPI_DATATYPE_NULL) {
        struct {
            double value;
            int64_t index;
        } own = {rank == 0 ? 1.0 : 2.0, 1000000000000 + rank}, all;
        CHECK(MPI_Type_get_envelope(pair, &integers, &addresses, &types, &combiner) == MPI_SUCCESS);
        CHECK(combiner == MPI_COMBINER_VALUE_INDEX && integers == 0 && addresses == 0 && types == 2);
        CHECK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, &again) == MPI_SUCCESS && again == pair);
        CHECK(MPI_Allreduce(&own, &all, 1, pair, MPI_MAXLOC, MPI_COMM_WORLD) == MPI_SUCCESS);
        CHECK(all.index == 1000000000000 + (size > 1 ? 1 : 0));
    }
}

static void tool_categories(void)
{
    int provided, categories, found, indices[4];
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_category_get_num(&categories);
    for (int wrong = -1; wrong <= categories; wrong += categories + 1) {
        CHECK(MPI_T_category_get_cvars(wrong, 4, indices) == MPI_T_ERR_INVALID_INDEX);
        CHECK(MPI_T_category_get_pvars(wrong, 4, indices) == MPI_T_ERR_INVALID_INDEX);
        CHECK(MPI_T_category_get_events(wrong, 4, indices) == MPI_T_ERR_INVALID_INDEX);
        CHECK(MPI_T_category_get_num_events(wrong, &found) == MPI_T_ERR_INVALID_INDEX);
        CHECK(MPI_T_category_get_categories(wrong, 4, indices) == MPI_T_ERR_INVALID_INDEX);
    }
    MPI_T_finalize();
}

static void hardware(void)
{
    MPI_Info info, kind;
    MPI_Comm part;
    int keys, length, flag;
    char key[MPI_MAX_INFO_KEY + 1], value[16];
    CHECK(MPI_Get_hw_resource_info(&info) == MPI_SUCCESS);
    MPI_Info_get_nkeys(info, &keys);
    CHECK(keys > 0);
    for (int i = 0; i < keys; i++) {
        length = sizeof value;
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get_string(info, key, &length, value, &flag);
        CHECK(flag && (strcmp(value, "true") == 0 || strcmp(value, "false") == 0));
        MPI_Info_create(&kind);
        MPI_Info_set(kind, "mpi_hw_resource_type", key);
        CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, kind, &part) == MPI_SUCCESS);
        if (part != MPI_COMM_NULL)
            MPI_Comm_free(&part);
        MPI_Info_free(&kind);
    }
    MPI_Info_free(&info);
}

/* Nothing is sent, so where it would lie means nothing; a read by an accumulation of nothing. */
static void reads_with_no_origin(void)
{
    int *memory, found = 0, right = (rank + 1) % size;
    MPI_Win win;
    MPI_Request request;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    *memory = 100 + rank;
    MPI_Win_fence(0, win);
    MPI_Win_lock_all(0, win);
    CHECK(MPI_Rget_accumulate(NULL, 0, MPI_BYTE, &found, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_NO_OP, win, &request) ==
          MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(found == 100 + right);
    found = 0;
    CHECK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, &found, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_NO_OP, win) ==
          MPI_SUCCESS);
    MPI_Win_flush(right, win);
    CHECK(found == 100 + right);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* A prefix has no meaning between two groups. */
static void prefixes_between_groups(void)
{
    MPI_Comm half, between;
    int one = 1, sum;
    if (size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, TAG, &between);
    MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Exscan(&one, &sum, 1, MPI_INT, MPI_SUM, between)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, between)) == MPI_ERR_COMM);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

/* What a file does by itself is among its hints, also where none was asked for. */
static void hints_of_a_file(const char *name)
{
    MPI_File file;
    MPI_Info info;
    int keys;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    CHECK(MPI_File_get_info(file, &info) == MPI_SUCCESS);
    MPI_Info_get_nkeys(info, &keys);
    CHECK(keys > 0);
    MPI_Info_free(&info);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    tests_of_many();
    error_of_one();
    large_counts();
    pairs();
    tool_categories();
    hardware();
    reads_with_no_origin();
    prefixes_between_groups();
    hints_of_a_file(argv[1]);
    return finish("reported");
}
