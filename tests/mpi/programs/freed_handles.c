/* Objects are only marked for deallocation when they are freed: operations that were started or prepared with them end as if they
 * were still there. Any number of ranks. */
#include "check.h"

enum { ELEMENTS = 3000, GAPPED = 2, LATE = 4711 };
static int me, ranks, calls;

/* An element of 8 bytes, of which the first 4 are data. */
static MPI_Datatype gapped(void)
{
    MPI_Datatype made;
    MPI_Type_create_resized(MPI_INT, 0, GAPPED * sizeof(int), &made);
    MPI_Type_commit(&made);
    return made;
}

/* Asks for what it needs to know of its elements, as functions of users do. */
static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint lower, extent;
    int size = 0, integers, addresses, types, combiner;
    calls++;
    MPI_Type_get_extent(*type, &lower, &extent);
    MPI_Type_size(*type, &size);
    MPI_Type_get_envelope(*type, &integers, &addresses, &types, &combiner);
    CHECK(extent == GAPPED * sizeof(int) && size == sizeof(int) && combiner == MPI_COMBINER_RESIZED);
    for (int i = 0; i < *count; i++)
        ((int *)inout)[GAPPED * i] += ((int *)in)[GAPPED * i];
}

static int data[GAPPED * ELEMENTS], result[GAPPED * ELEMENTS];

static void fill(void)
{
    for (int i = 0; i < ELEMENTS; i++)
        data[GAPPED * i] = me + i, result[GAPPED * i] = -1;
}

static void check_sum(int of, int line)
{
    for (int i = 0; i < ELEMENTS; i++)
        if (result[GAPPED * i] != of * (of - 1) / 2 + of * i) {
            check(0, "the sum", line);
            return;
        }
}
#define SUM_OF(of) check_sum(of, __LINE__)

/* Frees what the operation was made with. */
static void let_go(MPI_Comm *comm, MPI_Datatype *type, MPI_Op *op)
{
    MPI_Type_free(type);
    MPI_Op_free(op);
    MPI_Comm_free(comm);
    CHECK(*type == MPI_DATATYPE_NULL && *op == MPI_OP_NULL && *comm == MPI_COMM_NULL);
}

static void reductions(void)
{
    MPI_Comm comm;
    MPI_Datatype type, other;
    MPI_Op op;
    MPI_Request request;
    MPI_Info info;
    for (int kind = 0; kind < 10; kind++) {
        int is_persistent = kind >= 5, starts = is_persistent ? 3 : 1;
        fill();
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Op_create(sum, 1, &op);
        MPI_Info_create(&info);
        type = gapped();
        switch (kind) {
        case 0: MPI_Iallreduce(data, result, ELEMENTS, type, op, comm, &request); break;
        case 1: MPI_Ireduce(data, result, ELEMENTS, type, op, 0, comm, &request); break;
        case 2: MPI_Iscan(data, result, ELEMENTS, type, op, comm, &request); break;
        case 3: MPI_Iexscan(data, result, ELEMENTS, type, op, comm, &request); break;
        case 4: MPI_Ireduce_scatter_block(data, result, ELEMENTS / ranks, type, op, comm, &request); break;
        case 5: MPI_Allreduce_init(data, result, ELEMENTS, type, op, comm, info, &request); break;
        case 6: MPI_Reduce_init(data, result, ELEMENTS, type, op, 0, comm, info, &request); break;
        case 7: MPI_Scan_init(data, result, ELEMENTS, type, op, comm, info, &request); break;
        case 8: MPI_Exscan_init(data, result, ELEMENTS, type, op, comm, info, &request); break;
        case 9: MPI_Reduce_scatter_block_init(data, result, ELEMENTS / ranks, type, op, comm, info, &request); break;
        }
        MPI_Info_free(&info);
        let_go(&comm, &type, &op);
        /* Its place is not given to another one. */
        MPI_Type_contiguous(3, MPI_DOUBLE, &other);
        for (int i = 0; i < starts; i++) {
            if (is_persistent) {
                fill();
                MPI_Start(&request);
            }
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            switch (kind % 5) {
            case 0: SUM_OF(ranks); break;
            case 1: if (me == 0) SUM_OF(ranks); break;
            case 2: SUM_OF(me + 1); break;
            case 3: if (me > 0) SUM_OF(me); break;
            case 4: CHECK(result[0] == ranks * (ranks - 1) / 2 + ranks * me * (ELEMENTS / ranks)); break;
            }
        }
        if (is_persistent)
            MPI_Request_free(&request);
        MPI_Type_free(&other);
    }
    CHECK(ranks == 1 || calls > 0);
}

/* Each kind of persistent send, to the next rank. */
static void messages(void)
{
    static char room[ELEMENTS * sizeof data[0] + MPI_BSEND_OVERHEAD];
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    for (int kind = 0; kind < 6; kind++) {
        MPI_Comm comm;
        MPI_Datatype type = gapped();
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (kind == 2)
            MPI_Comm_attach_buffer(comm, room, sizeof room);
        MPI_Recv_init(result, ELEMENTS, type, before, 5, comm, &requests[0]);
        switch (kind) {
        case 0: MPI_Send_init(data, ELEMENTS, type, next, 5, comm, &requests[1]); break;
        case 1: MPI_Ssend_init(data, ELEMENTS, type, next, 5, comm, &requests[1]); break;
        case 2: case 3: MPI_Bsend_init(data, ELEMENTS, type, next, 5, comm, &requests[1]); break;
        case 4: MPI_Rsend_init(data, ELEMENTS, type, next, 5, comm, &requests[1]); break;
        case 5:
            MPI_Request_free(&requests[0]);
            MPI_Precv_init(result, 1, ELEMENTS, type, before, 5, comm, MPI_INFO_NULL, &requests[0]);
            MPI_Psend_init(data, ELEMENTS, 1, type, next, 5, comm, MPI_INFO_NULL, &requests[1]);
            break;
        }
        if (kind == 3)
            MPI_Comm_attach_buffer(comm, room, sizeof room);
        MPI_Type_free(&type);
        MPI_Comm_free(&comm);
        for (int i = 0; i < 3; i++) {
            fill();
            data[0] = i;
            MPI_Start(&requests[0]);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Start(&requests[1]);
            if (kind == 5)
                MPI_Pready_range(0, ELEMENTS - 1, requests[1]);
            MPI_Waitall(2, requests, statuses);
            CHECK(result[0] == i && result[GAPPED * (ELEMENTS - 1)] == before + ELEMENTS - 1);
            CHECK(statuses[0].MPI_SOURCE == before && statuses[0].MPI_TAG == 5);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}

/* Collective operations without a reduction, on communicators of every kind. */
static void collectives(void)
{
    MPI_Comm comm, copy, ring;
    MPI_Request request, pending;
    int period = 1, from = me, two[2] = {-1, -1}, all = -1, one = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Bcast_init(&from, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request);
    MPI_Comm_idup(comm, &copy, &pending);
    MPI_Comm_free(&comm);
    MPI_Wait(&pending, MPI_STATUS_IGNORE);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(from == 0);
    MPI_Request_free(&request);
    MPI_Cart_create(copy, 1, &ranks, &period, 0, &ring);
    MPI_Neighbor_allgather_init(&me, 1, MPI_INT, two, 1, MPI_INT, ring, MPI_INFO_NULL, &request);
    MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, copy, &pending);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&copy);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&pending, MPI_STATUS_IGNORE);
    CHECK(two[0] == (me + ranks - 1) % ranks && two[1] == (me + 1) % ranks && all == ranks);
    MPI_Request_free(&request);
}

/* Windows keep what they are made of, epochs the group, operations the types. */
static void windows(void)
{
    MPI_Comm comm;
    MPI_Group group;
    MPI_Win win;
    MPI_Info info;
    MPI_Datatype type = gapped();
    MPI_Request request;
    int *memory;
    fill();
    MPI_Info_create(&info);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_group(comm, &group);
    MPI_Win_allocate(sizeof data, sizeof(int), info, comm, &memory, &win);
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
    MPI_Win_post(group, 0, win);
    MPI_Win_start(group, 0, win);
    MPI_Group_free(&group);
    MPI_Put(data, ELEMENTS, type, (me + 1) % ranks, 0, ELEMENTS, type, win);
    MPI_Type_free(&type);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    CHECK(memory[GAPPED * 7] == (me + ranks - 1) % ranks + 7);
    MPI_Win_lock_all(0, win);
    type = gapped();
    MPI_Rget(result, ELEMENTS, type, (me + 1) % ranks, 0, ELEMENTS, type, win, &request);
    MPI_Type_free(&type);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(result[GAPPED * 7] == me + 7);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static MPI_Comm raised_on;
static int raised;

static void handler(MPI_Comm *on, int *code, ...)
{
    raised_on = *on;
    raised = class_of(*code);
}

/* An error of an operation goes to the handler of its communicator. */
static void errors(int is_persistent)
{
    MPI_Comm comm;
    MPI_Errhandler own;
    MPI_Request request;
    int three[3] = {1, 2, 3}, room = 0;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(comm, own);
    MPI_Errhandler_free(&own);
    if (is_persistent) {
        MPI_Recv_init(&room, 1, MPI_INT, 0, LATE, comm, &request);
        MPI_Start(&request);
    } else
        MPI_Irecv(&room, 1, MPI_INT, 0, LATE, comm, &request);
    MPI_Send(three, 3, MPI_INT, 0, LATE, comm);
    MPI_Comm_free(&comm);
    raised = MPI_SUCCESS;
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_TRUNCATE && raised == MPI_ERR_TRUNCATE);
    if (is_persistent)
        MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    reductions();
    messages();
    collectives();
    windows();
    errors(0);
    errors(1);
    return finish("freed_handles");
}
