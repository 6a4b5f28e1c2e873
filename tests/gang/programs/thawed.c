/* thawed EVENTS: a rank that waits until it has seen so many events of its job being thawed; each says more
   than the one before, and they grow by no more than the counters, which count from before the first one. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THAWS, FROZEN_US, COUNTERS };
static const char *const names[COUNTERS] = {"thaws", "frozen_us"};
static MPI_T_pvar_session session;
static MPI_T_pvar_handle counters[COUNTERS];

struct seen {
    long calls;
    unsigned long long values[COUNTERS], first[COUNTERS];
    MPI_Count stamp;
};

static void want(int holds, const char *what)
{
    if (holds)
        return;
    printf("thawed: expected %s\n", what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void on_thaw(MPI_T_event_instance instance, MPI_T_event_registration handle, MPI_T_cb_safety safety,
                    void *data)
{
    struct seen *seen = data, before = *seen;
    (void)handle;
    want(safety == MPI_T_CB_REQUIRE_NONE, "a callback that may call all of MPI");
    for (int i = 0; i < COUNTERS; i++) {
        unsigned long long counted = 0;
        want(MPI_T_event_read(instance, i, &seen->values[i]) == MPI_SUCCESS, "a value");
        want(MPI_T_pvar_read(session, counters[i], &counted) == MPI_SUCCESS, "a counter that can be read");
        if (seen->calls == 0)
            seen->first[i] = seen->values[i];
        want(seen->values[i] - seen->first[i] <= counted, "no more than is counted");
    }
    want(MPI_T_event_get_timestamp(instance, &seen->stamp) == MPI_SUCCESS, "a time");
    want(seen->values[THAWS] > before.values[THAWS], "a thaw more than the last event had");
    want(seen->values[FROZEN_US] >= before.values[FROZEN_US], "no less frozen time than the last event had");
    want(seen->stamp > before.stamp, "a later time than the last event had");
    seen->calls++;
}

int main(int argc, char **argv)
{
    const long wanted = argc > 1 ? atol(argv[1]) : 0;
    int rank, provided, index, count, more = 1;
    struct seen seen = {0};
    MPI_T_event_registration handle;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < COUNTERS; i++) {
        want(MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS, names[i]);
        MPI_T_pvar_handle_alloc(session, index, NULL, &counters[i], &count);
        MPI_T_pvar_start(session, counters[i]);
    }
    want(MPI_T_event_get_index("tutti.thawed", &index) == MPI_SUCCESS, "an event tutti.thawed");
    want(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &handle) == MPI_SUCCESS, "a handle");
    want(MPI_T_event_register_callback(handle, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &seen, on_thaw) ==
             MPI_SUCCESS,
         "a callback");
    while (more) {
        /* Rank 1 lets rank 0 wait, and asks it whether it has seen enough. */
        const struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
        if (rank == 1)
            nanosleep(&nap, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        more = seen.calls < wanted;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        unsigned long long counted = 0;
        MPI_T_pvar_read(session, counters[THAWS], &counted);
        want(counted + 1 >= (unsigned long long)wanted, "as many thaws counted as events");
        want(seen.values[THAWS] >= (unsigned long long)wanted, "a thaw for each event");
        printf("thawed: ok\n");
    }
    MPI_Finalize();
    return 0;
}
