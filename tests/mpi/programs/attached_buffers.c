/* Buffers for buffered sends belong to the process, a session or a communicator (MPI 3.6), serve what goes back to it, and end
 * with it. One rank. */
#include "check.h"

enum { ROOM = 2000, LARGE = 1000, REUSED = 300 };
static char of_process[ROOM], of_session[ROOM], of_comm[ROOM], data[LARGE];

/* The class of a buffered send of so many bytes to this process itself, which is received. */
static int sent(MPI_Comm comm, int bytes)
{
    char got[LARGE];
    int class = class_of(MPI_Bsend(data, bytes, MPI_CHAR, 0, 0, comm));
    if (class == MPI_SUCCESS)
        MPI_Recv(got, LARGE, MPI_CHAR, 0, 0, comm, MPI_STATUS_IGNORE);
    return class;
}

static void of_sessions(void)
{
    MPI_Session session, other;
    MPI_Group group, part, joined;
    MPI_Comm comm, copy, half, of_part, of_other;
    void *address;
    int size, first = 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "one", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_split(comm, 0, 0, &half);
    MPI_Group_incl(group, 1, &first, &part);
    MPI_Group_union(part, group, &joined);
    MPI_Comm_create_from_group(joined, "two", MPI_INFO_NULL, MPI_ERRORS_RETURN, &of_part);
    MPI_Group_free(&joined);
    MPI_Group_free(&part);
    MPI_Group_free(&group);
    MPI_Group_from_session_pset(other, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "three", MPI_INFO_NULL, MPI_ERRORS_RETURN, &of_other);
    CHECK(sent(comm, 1) == MPI_ERR_BUFFER);
    CHECK(MPI_Session_attach_buffer(session, of_session, ROOM) == MPI_SUCCESS);
    CHECK(sent(comm, LARGE) == MPI_SUCCESS && sent(copy, 1) == MPI_SUCCESS && sent(half, 1) == MPI_SUCCESS);
    CHECK(sent(of_part, 1) == MPI_SUCCESS);
    CHECK(sent(of_other, 1) == MPI_ERR_BUFFER && sent(MPI_COMM_SELF, 1) == MPI_ERR_BUFFER);
    /* The nearest one counts, also when it is too small. */
    MPI_Comm_attach_buffer(comm, of_comm, 100 + MPI_BSEND_OVERHEAD);
    CHECK(sent(comm, 100) == MPI_SUCCESS && sent(comm, 600) == MPI_ERR_BUFFER && sent(copy, 600) == MPI_SUCCESS);
    CHECK(MPI_Comm_detach_buffer(comm, &address, &size) == MPI_SUCCESS && address == of_comm);
    CHECK(sent(comm, 101) == MPI_SUCCESS);
    CHECK(class_of(MPI_Session_attach_buffer(session, of_session, ROOM)) == MPI_ERR_BUFFER);
    CHECK(MPI_Session_flush_buffer(session) == MPI_SUCCESS);
    CHECK(MPI_Session_detach_buffer(session, &address, &size) == MPI_SUCCESS && address == of_session && size == ROOM);
    CHECK(sent(comm, 1) == MPI_ERR_BUFFER);
    MPI_Buffer_attach(of_process, ROOM);
    CHECK(sent(comm, 1) == MPI_SUCCESS && sent(of_other, 1) == MPI_SUCCESS);
    MPI_Buffer_detach(&address, &size);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
    MPI_Comm_free(&of_part);
    MPI_Comm_free(&of_other);
    MPI_Session_finalize(&other);
    MPI_Session_finalize(&session);
}

/* What was attached to a handle that is used again is not there any more. */
static void of_reused_handles(void)
{
    for (int i = 0; i < REUSED; i++) {
        MPI_Comm comm;
        MPI_Session session;
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        CHECK(sent(comm, 1) == MPI_ERR_BUFFER);
        CHECK(MPI_Comm_attach_buffer(comm, of_comm, ROOM) == MPI_SUCCESS);
        MPI_Comm_free(&comm);
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        CHECK(MPI_Session_attach_buffer(session, of_session, ROOM) == MPI_SUCCESS);
        MPI_Session_finalize(&session);
        if (failures)
            return;
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    of_sessions();
    of_reused_handles();
    return finish("attached_buffers");
}
