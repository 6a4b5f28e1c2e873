/* Operations that are refused are counted by reason, at the rank on whose memory they were to work. Between two nodes. */
#include "check.h"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <tutti.h>

static void refused(const char *reason)
{
    char name[64];
    int index, count;
    unsigned long long value = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    snprintf(name, sizeof name, "refused_%s", reason);
    CHECK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
    static const char *const reasons[] = {"no_region", "no_right", "out_of_range", "unaligned", "malformed", "full"};
    const int expected[] = {1, 2, 3, 4, 0, 5};
    int at = 0;
    while (strcmp(reasons[at], reason))
        at++;
    /* From here on it counts what comes. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    CHECK(value == (unsigned long long)(me == 1 ? expected[at] : 0));
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
}

static void ask(const tutti_region *regions, const char *reason)
{
    char bytes[64] = {0};
    int64_t before;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(reason, "no_region"))
        CHECK(tutti_write(&regions[0], 0, bytes, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);
    for (int time = 0; time < 2 && !strcmp(reason, "no_right"); time++)
        CHECK(tutti_write(&regions[1], 0, bytes, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    for (int time = 0; time < 3 && !strcmp(reason, "out_of_range"); time++)
        CHECK(tutti_put(&regions[2], bytes, sizeof bytes, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    for (int time = 0; time < 4 && !strcmp(reason, "unaligned"); time++)
        CHECK(tutti_fetch_add(&regions[1], 4, 1, &before, TUTTI_WAIT) == TUTTI_ERR_ALIGN);
    for (int time = 0; time < 6 && !strcmp(reason, "full"); time++)
        CHECK(tutti_put(&regions[2], bytes, 8, TUTTI_WAIT) == (time ? TUTTI_ERR_FULL : TUTTI_OK));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const char *const reasons[] = {"no_region", "no_right", "out_of_range", "unaligned", "malformed", "full"};
    tutti_region regions[3];
    int level, all;
    memset(regions, 0, sizeof regions);
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    char *memory = tutti_alloc(4096);
    if (me == 1) {
        CHECK(tutti_open(memory, 64, TUTTI_WRITE, &regions[0]) == TUTTI_OK);
        CHECK(tutti_open(memory, 64, TUTTI_READ | TUTTI_ATOMIC, &regions[1]) == TUTTI_OK);
        CHECK(tutti_queue_open(8, &regions[2]) == TUTTI_OK);
        CHECK(tutti_close(&regions[0]) == TUTTI_OK);
    }
    MPI_Bcast(regions, sizeof regions, MPI_BYTE, 1, MPI_COMM_WORLD);
    for (int at = 0; at < 6; at++) {
        if (me == 1)
            refused(reasons[at]);
        else
            ask(regions, reasons[at]);
    }
    int sum = failures;
    MPI_Reduce(&sum, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0 && !all)
        puts("refused: ok");
    MPI_T_finalize();
    MPI_Finalize();
    return failures > 0;
}
