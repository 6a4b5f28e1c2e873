/* Requests: looked at without being completed (MPI 3.7.6), persistent ones that outlive the handles they were made with (3.9),
 * generalized ones whose cancel function fails (13.2). Ranks 0 and 1; further ranks only begin and end. */
#include "check.h"

enum { TAG = 3 };

static void look_without_completing(int rank)
{
    MPI_Request requests[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[4];
    int data[2] = {-1, -1}, flag = -1, index = -1, count = -1, indices[4];

    MPI_Request_get_status_any(4, requests, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE);
    MPI_Request_get_status_all(4, requests, &flag, statuses);
    CHECK(flag && statuses[3].MPI_TAG == MPI_ANY_TAG);
    MPI_Request_get_status_some(4, requests, &count, indices, statuses);
    CHECK(count == MPI_UNDEFINED);
    MPI_Request_get_status_all(0, NULL, &flag, MPI_STATUSES_IGNORE);
    CHECK(flag);

    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&(int){11}, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&(int){22}, 1, MPI_INT, 1, TAG + 2, MPI_COMM_WORLD);
        return;
    }
    MPI_Irecv(&data[0], 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&data[1], 1, MPI_INT, 0, TAG + 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Request_get_status_any(4, requests, &index, &flag, &status);
    CHECK(!flag);
    MPI_Request_get_status_all(4, requests, &flag, statuses);
    CHECK(!flag);
    MPI_Request_get_status_some(4, requests, &count, indices, statuses);
    CHECK(count == 0);

    MPI_Send(NULL, 0, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
        MPI_Request_get_status_any(4, requests, &index, &flag, &status);
    CHECK(index == 1 && status.MPI_TAG == TAG + 1 && data[0] == 11);
    MPI_Request_get_status_some(4, requests, &count, indices, statuses);
    CHECK(count == 1 && indices[0] == 1 && statuses[0].MPI_SOURCE == 0);
    MPI_Request_get_status_all(4, requests, &flag, statuses);
    CHECK(!flag);

    MPI_Send(NULL, 0, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
        MPI_Request_get_status_all(4, requests, &flag, statuses);
    CHECK(statuses[0].MPI_TAG == MPI_ANY_TAG && statuses[1].MPI_TAG == TAG + 1 && statuses[3].MPI_TAG == TAG + 2);
    CHECK(requests[1] != MPI_REQUEST_NULL && requests[3] != MPI_REQUEST_NULL);
    MPI_Request_get_status_some(4, requests, &count, indices, MPI_STATUSES_IGNORE);
    CHECK(count == 2 && indices[0] == 1 && indices[1] == 3);
    MPI_Waitall(4, requests, statuses);
    CHECK(data[1] == 22 && requests[1] == MPI_REQUEST_NULL);
}

/* Datatype and communicator are freed between the preparation and the start. */
static void outlive_handles(int rank)
{
    enum { ROUNDS = 3, COUNT = 5 };
    int data[2 * COUNT], wrong = 0;
    MPI_Datatype every_second;
    MPI_Comm comm;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_vector(COUNT, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    if (rank == 0)
        MPI_Send_init(data, 1, every_second, 1, TAG, comm, &request);
    else if (rank == 1)
        MPI_Recv_init(data, 1, every_second, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    MPI_Type_free(&every_second);
    MPI_Comm_free(&comm);
    for (int round = 0; round < ROUNDS && rank < 2; round++) {
        for (int i = 0; i < 2 * COUNT; i++)
            data[i] = rank == 0 ? 100 * round + i : -1;
        MPI_Start(&request);
        MPI_Wait(&request, &status);
        for (int i = 0; i < 2 * COUNT && rank == 1; i++)
            wrong += data[i] != (i % 2 ? -1 : 100 * round + i);
        CHECK(wrong == 0);
        CHECK(rank == 0 || (status.MPI_SOURCE == 0 && status.MPI_TAG == TAG));
    }
    if (rank < 2)
        MPI_Request_free(&request);
}

static int query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = 9;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    ++*(int *)state;
    return MPI_SUCCESS;
}

static int fail_to_release(void *state)
{
    ++*(int *)state;
    return MPI_ERR_OTHER;
}

static int forbid(void *state, MPI_Status *status)
{
    (void)state, (void)status;
    CHECK(!"the query function of a request that is freed");
    return MPI_SUCCESS;
}

static int refuse(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_ERR_OTHER;
}

static void cancel_functions_may_fail(void)
{
    int freed = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Grequest_start(query, release, refuse, &freed, &request);
    CHECK(class_of(MPI_Cancel(&request)) == MPI_ERR_OTHER);
    MPI_Grequest_complete(request);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && status.MPI_TAG == 9 && freed == 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The free function of a generalized request runs when both MPI_Request_free and MPI_Grequest_complete have been
   called; the query function is for calls that complete a request or look at it. */
static void free_functions_run_once(void)
{
    int freed = 0, queried = 0, flag;
    MPI_Request request, kept;
    MPI_Status status;
    MPI_Grequest_start(forbid, release, refuse, &freed, &request);
    MPI_Grequest_complete(request);
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS && freed == 1 && request == MPI_REQUEST_NULL);
    MPI_Grequest_start(forbid, release, refuse, &freed, &request);
    kept = request;
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS && freed == 1);
    CHECK(MPI_Grequest_complete(kept) == MPI_SUCCESS && freed == 2);
    MPI_Grequest_start(query, release, refuse, &queried, &request);
    MPI_Grequest_complete(request);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(flag && status.MPI_TAG == 9 && queried == 0);
    MPI_Request_free(&request);
    CHECK(queried == 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Grequest_start(query, fail_to_release, refuse, &freed, &request);
    MPI_Grequest_complete(request);
    CHECK(class_of(MPI_Request_free(&request)) == MPI_ERR_OTHER && freed == 3);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank < 2)
        look_without_completing(rank);
    outlive_handles(rank);
    cancel_functions_may_fail();
    free_functions_run_once();
    return finish("requests");
}
