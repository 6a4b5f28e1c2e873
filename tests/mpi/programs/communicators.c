/* MPI 7.4: communicators are made, compared, named and freed; their messages never meet. */
#include "check.h"

static int rank, size;

/* Every process tells its right neighbour its rank, over a communicator. */
static void ring(MPI_Comm comm)
{
    int me, ranks, got = -1;
    MPI_Status status;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &ranks);
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % ranks, 7, &got, 1, MPI_INT, (me + ranks - 1) % ranks, 7, comm, &status);
    CHECK(got == (me + ranks - 1) % ranks);
    CHECK(status.MPI_SOURCE == got);
}

static int likeness(MPI_Comm a, MPI_Comm b)
{
    int result = -1;
    CHECK(MPI_Comm_compare(a, b, &result) == MPI_SUCCESS);
    return result;
}

static void predefined(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag, n;
    CHECK(MPI_Comm_size(MPI_COMM_SELF, &n) == MPI_SUCCESS && n == 1);
    CHECK(MPI_Comm_rank(MPI_COMM_SELF, &n) == MPI_SUCCESS && n == 0);
    CHECK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length) == MPI_SUCCESS);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
    CHECK(MPI_Comm_get_name(MPI_COMM_SELF, name, &length) == MPI_SUCCESS && strcmp(name, "MPI_COMM_SELF") == 0);
    CHECK(MPI_Comm_get_name(MPI_COMM_NULL, name, &length) == MPI_SUCCESS && strcmp(name, "MPI_COMM_NULL") == 0);
    CHECK(likeness(MPI_COMM_WORLD, MPI_COMM_WORLD) == MPI_IDENT);
    CHECK(likeness(MPI_COMM_WORLD, MPI_COMM_SELF) == (size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL));
}

static void dup(void)
{
    MPI_Comm copy, again;
    char name[MPI_MAX_OBJECT_NAME];
    int length, value = rank, got;
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &copy) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(copy, &again) == MPI_SUCCESS);
    CHECK(likeness(copy, MPI_COMM_WORLD) == MPI_CONGRUENT);
    CHECK(likeness(copy, again) == MPI_CONGRUENT);
    CHECK(MPI_Comm_get_name(copy, name, &length) == MPI_SUCCESS && length == 0 && name[0] == 0);
    CHECK(MPI_Comm_set_name(copy, "of my own") == MPI_SUCCESS);
    CHECK(MPI_Comm_get_name(copy, name, &length) == MPI_SUCCESS && strcmp(name, "of my own") == 0 && length == 9);
    ring(copy);
    ring(again);
    /* The messages of one communicator are not received over another. */
    if (size > 1 && rank == 0) {
        for (int i = 0; i < 2; i++) {
            value = i;
            MPI_Send(&value, 1, MPI_INT, 1, 3, i ? again : copy);
        }
    } else if (rank == 1) {
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, again, MPI_STATUS_IGNORE);
        CHECK(got == 1);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);
        CHECK(got == 0);
    }
    /* A freed communicator's pending receive still gets its message. */
    MPI_Request request;
    got = -1;
    value = 100 + rank;
    MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 5, copy, &request);
    MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 5, copy);
    CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS && copy == MPI_COMM_NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == 100 + (rank + size - 1) % size);
    CHECK(MPI_Comm_disconnect(&again) == MPI_SUCCESS && again == MPI_COMM_NULL);
}

/* Several at once, which need not be finished in the order in which they began. */
static void idup(void)
{
    MPI_Comm copies[6], between;
    MPI_Request requests[6];
    int flag = 0, is_done = 0;
    for (int i = 0; i < 6; i++) {
        CHECK(MPI_Comm_idup(i % 2 ? MPI_COMM_WORLD : MPI_COMM_SELF, &copies[i], &requests[i]) == MPI_SUCCESS);
        if (i == 3)
            MPI_Comm_dup(MPI_COMM_WORLD, &between);
    }
    while (!is_done)
        CHECK(MPI_Test(&requests[5], &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    ring(copies[5]);
    ring(between);
    CHECK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < 6; i++) {
        CHECK(likeness(copies[i], i % 2 ? MPI_COMM_WORLD : MPI_COMM_SELF) == MPI_CONGRUENT);
        ring(copies[i]);
        MPI_Comm_free(&copies[i]);
    }
    MPI_Comm_free(&between);
    /* Nobody waits for a late rank before its request is waited for. */
    if (size > 1) {
        if (rank == 0)
            MPI_Recv(&flag, 1, MPI_INT, size - 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(MPI_Comm_idup(MPI_COMM_WORLD, &copies[0], &requests[0]) == MPI_SUCCESS);
        if (rank == size - 1)
            MPI_Send(&flag, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        ring(copies[0]);
        MPI_Comm_free(&copies[0]);
    }
}

static void split(void)
{
    MPI_Comm part;
    int me, ranks;
    /* Odd and even, in reverse order. */
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part) == MPI_SUCCESS);
    MPI_Comm_rank(part, &me);
    MPI_Comm_size(part, &ranks);
    CHECK(ranks == (size + 1 - rank % 2) / 2);
    CHECK(me == ranks - 1 - rank / 2);
    ring(part);
    MPI_Comm_free(&part);
    /* Equal keys keep the order. */
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, 42, 7, &part) == MPI_SUCCESS);
    CHECK(likeness(part, MPI_COMM_WORLD) == MPI_CONGRUENT);
    MPI_Comm_free(&part);
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &part) == MPI_SUCCESS);
    CHECK(likeness(part, MPI_COMM_WORLD) == (size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
    ring(part);
    MPI_Comm_free(&part);
    /* Rank 0 stays out. */
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &part) == MPI_SUCCESS);
    CHECK((part == MPI_COMM_NULL) == (rank == 0));
    if (part != MPI_COMM_NULL) {
        ring(part);
        MPI_Comm_free(&part);
    }
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &part) == MPI_SUCCESS);
    /* One part for each node. */
    int together;
    MPI_Comm_size(part, &together);
    CHECK(likeness(part, MPI_COMM_WORLD) == (together == size ? MPI_CONGRUENT : MPI_UNEQUAL));
    ring(part);
    MPI_Comm_free(&part);
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, rank, MPI_INFO_NULL, &part) == MPI_SUCCESS);
    CHECK(part == MPI_COMM_NULL);
}

static void create(void)
{
    MPI_Group world, upper;
    MPI_Comm made;
    int me, first = size / 2, last = size - 1, n;
    int range[1][3] = {{last, first, -1}};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &upper);
    CHECK(MPI_Comm_create(MPI_COMM_WORLD, upper, &made) == MPI_SUCCESS);
    CHECK((made != MPI_COMM_NULL) == (rank >= first));
    if (made != MPI_COMM_NULL) {
        MPI_Comm_rank(made, &me);
        CHECK(me == last - rank);
        ring(made);
        MPI_Comm_free(&made);
    }
    CHECK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &made) == MPI_SUCCESS && made == MPI_COMM_NULL);
    /* Two groups at once, each by its members only. */
    MPI_Group mine;
    if (rank < first)
        MPI_Group_difference(world, upper, &mine);
    else
        mine = upper;
    CHECK(MPI_Comm_create_group(MPI_COMM_WORLD, mine, rank < first ? 3 : 0, &made) == MPI_SUCCESS);
    MPI_Comm_size(made, &n);
    CHECK(n == (rank < first ? first : size - first));
    ring(made);
    MPI_Comm_free(&made);
    if (rank < first)
        MPI_Group_free(&mine);
    MPI_Group_free(&upper);
    MPI_Group_free(&world);
    CHECK(world == MPI_GROUP_NULL);
}

/* Many communicators, in an order that differs from rank to rank as far as the standard allows. */
static void many(void)
{
    MPI_Comm comms[40];
    for (int i = 0; i < 40; i++) {
        MPI_Comm parent = i == 0 ? MPI_COMM_WORLD : comms[i / 2];
        if (i % 3 == 0)
            MPI_Comm_dup(parent, &comms[i]);
        else
            MPI_Comm_split(parent, 0, i % 3 == 1 ? rank : -rank, &comms[i]);
        MPI_Comm own;
        for (int j = 0; j < rank; j++) {
            MPI_Comm_dup(MPI_COMM_SELF, &own);
            ring(own);
            MPI_Comm_free(&own);
        }
    }
    for (int i = 39; i >= 0; i--)
        ring(comms[i]);
    for (int i = 0; i < 40; i++)
        MPI_Comm_free(&comms[i]);
}

/* An unguided split gives smaller parts, and says by what it has split, or none. */
static void unguided(void)
{
    MPI_Info info;
    MPI_Comm part;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag, part_size;
    CHECK(MPI_Info_create(&info) == MPI_SUCCESS);
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &part) == MPI_SUCCESS);
    if (is_tutti() && part != MPI_COMM_NULL) {
        MPI_Comm_size(part, &part_size);
        CHECK(part_size < size);
        CHECK(MPI_Info_get(info, "mpi_hw_resource_type", MPI_MAX_INFO_VAL, value, &flag) == MPI_SUCCESS && flag);
        CHECK(strcmp(value, "mpi_shared_memory") == 0);
    }
    if (part != MPI_COMM_NULL)
        CHECK(MPI_Comm_free(&part) == MPI_SUCCESS);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
}

static void hints(void)
{
    MPI_Info info;
    MPI_Comm copy;
    char value[16];
    int flag, length = sizeof value;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Info_set(info, "a key that nobody knows", "1");
    CHECK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_Comm_get_info(copy, &info) == MPI_SUCCESS);
    CHECK(MPI_Info_get_string(info, "mpi_assert_no_any_tag", &length, value, &flag) == MPI_SUCCESS);
    CHECK(!flag || strcmp(value, "true") == 0);
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    CHECK(MPI_Comm_set_info(copy, info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    MPI_Comm_free(&copy);
}

static void wrong_arguments(void)
{
    MPI_Comm comm, copy;
    int n;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_size(MPI_COMM_NULL, &n)) == MPI_ERR_COMM);
    if (is_tutti()) {
        CHECK(class_of(MPI_Comm_split(comm, -5, 0, &copy)) == MPI_ERR_ARG);
        CHECK(class_of(MPI_Comm_remote_size(comm, &n)) == MPI_ERR_COMM);
    }
    CHECK(class_of(MPI_Comm_split_type(comm, 12345, 0, MPI_INFO_NULL, &copy)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_create(comm, MPI_GROUP_NULL, &copy)) == MPI_ERR_GROUP);
    copy = MPI_COMM_NULL;
    CHECK(class_of(MPI_Comm_free(&copy)) == MPI_ERR_COMM);
    copy = MPI_COMM_WORLD;
    CHECK(class_of(MPI_Comm_free(&copy)) == MPI_ERR_COMM && copy == MPI_COMM_WORLD);
    copy = MPI_COMM_SELF;
    MPI_Group self;
    MPI_Comm_group(MPI_COMM_WORLD, &self);
    if (size > 1)
        CHECK(class_of(MPI_Comm_create(MPI_COMM_SELF, self, &copy)) == MPI_ERR_GROUP);
    MPI_Group_free(&self);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    predefined();
    dup();
    idup();
    split();
    create();
    many();
    hints();
    unguided();
    wrong_arguments();
    return finish("communicators");
}
