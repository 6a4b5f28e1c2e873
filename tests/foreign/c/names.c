/* Names, ports and groups, built with another MPI's compiler: an intercommunicator of two halves by a published name,
 * twice; the name is gone when it is taken back. With MPI-4 a communicator from a group of some ranks, of a session. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: " #what "\n", __LINE__); \
            MPI_Abort(MPI_COMM_WORLD, 4); \
        } \
    } while (0)

static void halves(int rank, int size)
{
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, inter, all;
    int is_server = rank < (size + 1) / 2, one = 1, sum, number = is_server ? 0 : 42;
    MPI_Comm_split(MPI_COMM_WORLD, is_server, rank, &half);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        CHECK(MPI_Publish_name("a name", MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(MPI_Publish_name("a name", MPI_INFO_NULL, port) != MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_server) {
        CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter) == MPI_SUCCESS);
    } else {
        CHECK(MPI_Lookup_name("a name", MPI_INFO_NULL, found) == MPI_SUCCESS);
        CHECK(MPI_Comm_connect(found, MPI_INFO_NULL, 0, half, &inter) == MPI_SUCCESS);
    }
    MPI_Intercomm_merge(inter, !is_server, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == size);
    MPI_Bcast(&number, 1, MPI_INT, size - 1, all);
    CHECK(number == 42);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK(MPI_Unpublish_name("a name", MPI_INFO_NULL, port) == MPI_SUCCESS);
        MPI_Close_port(port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Lookup_name("a name", MPI_INFO_NULL, found) != MPI_SUCCESS);
    MPI_Comm_free(&half);
    MPI_Barrier(MPI_COMM_WORLD);
}

#if MPI_VERSION >= 4
static void groups(int rank, int size)
{
    MPI_Session session;
    MPI_Group all, some;
    MPI_Comm comm;
    int range[1][3] = {{0, size - 1, 2}}, sum, one = 1;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all) == MPI_SUCCESS);
    for (int round = 0; round < 2; round++) {
        CHECK(MPI_Comm_create_from_group(all, "all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size);
        MPI_Comm_free(&comm);
    }
    if (rank % 2 == 0) {
        MPI_Group_range_incl(all, 1, range, &some);
        CHECK(MPI_Comm_create_from_group(some, "even", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == (size + 1) / 2);
        MPI_Comm_free(&comm);
        MPI_Group_free(&some);
    }
    // Of each rank alone, often: what the server of PMIx frees twice is soon another's.
    MPI_Comm_group(MPI_COMM_SELF, &some);
    for (int round = 0; round < 20; round++) {
        CHECK(MPI_Comm_create_from_group(some, "alone", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == 1);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);
}
#endif

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 2; round++)
        halves(rank, size);
#if MPI_VERSION >= 4
    groups(rank, size);
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("names and groups: all right\n");
    MPI_Finalize();
    return 0;
}
