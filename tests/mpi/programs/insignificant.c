/* Arguments that a rank does not need: beside the root, in place, of no elements, of no color. They may be anything, and are null
 * pointers, negative counts and null handles here. Every function that has such arguments is in one of the tables. */
#include "check.h"

#define NONE NULL, -1, MPI_DATATYPE_NULL
#define NONES NULL, NULL, NULL, MPI_DATATYPE_NULL

static int rank, size, ones[64], places[64], bytes[64];
static MPI_Datatype ints[64];

static void is(int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d of %d: %s: %s\n", rank, size, what, text);
    failures++;
}

/* A collective operation in its three forms. */
#define FORMS(Name, name, ...)                                                          \
    do {                                                                                \
        MPI_Request request_ = MPI_REQUEST_NULL;                                        \
        is(MPI_##Name(__VA_ARGS__), "MPI_" #Name);                                      \
        is(MPI_I##name(__VA_ARGS__, &request_), "MPI_I" #name);                         \
        is(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_I" #name);                      \
        is(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_), "MPI_" #Name "_init"); \
        if (request_ != MPI_REQUEST_NULL) {                                             \
            is(MPI_Start(&request_), "MPI_" #Name "_init");                             \
            is(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_" #Name "_init");           \
            MPI_Request_free(&request_);                                                \
        }                                                                               \
    } while (0)

/* The same call with other arguments at one rank. */
#define AT(holds, one, other) \
    if (holds)                \
        one;                  \
    else                      \
        other

static void of_a_root(MPI_Comm comm)
{
    int a[64] = {rank, 2}, b[64];
    for (int root = 0; root < size; root++) {
        AT(rank == root, FORMS(Gather, gather, a, 2, MPI_INT, b, 2, MPI_INT, root, comm),
           FORMS(Gather, gather, a, 2, MPI_INT, NONE, root, comm));
        AT(rank == root, FORMS(Gather, gather, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, 2, MPI_INT, root, comm),
           FORMS(Gather, gather, a, 2, MPI_INT, NONE, root, comm));
        AT(rank == root, FORMS(Gatherv, gatherv, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, ones, places, MPI_INT, root, comm),
           FORMS(Gatherv, gatherv, a, 1, MPI_INT, NONES, root, comm));
        AT(rank == root, FORMS(Scatter, scatter, a, 2, MPI_INT, b, 2, MPI_INT, root, comm),
           FORMS(Scatter, scatter, NONE, b, 2, MPI_INT, root, comm));
        AT(rank == root, FORMS(Scatter, scatter, a, 2, MPI_INT, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, root, comm),
           FORMS(Scatter, scatter, NONE, b, 2, MPI_INT, root, comm));
        AT(rank == root, FORMS(Scatterv, scatterv, a, ones, places, MPI_INT, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, root, comm),
           FORMS(Scatterv, scatterv, NONES, b, 1, MPI_INT, root, comm));
        AT(rank == root, FORMS(Reduce, reduce, MPI_IN_PLACE, b, 2, MPI_INT, MPI_SUM, root, comm),
           FORMS(Reduce, reduce, a, NULL, 2, MPI_INT, MPI_SUM, root, comm));
    }
}

static void in_place(MPI_Comm comm)
{
    int b[64] = {0};
    FORMS(Allgather, allgather, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, 1, MPI_INT, comm);
    FORMS(Allgatherv, allgatherv, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, ones, places, MPI_INT, comm);
    FORMS(Alltoall, alltoall, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, 1, MPI_INT, comm);
    FORMS(Alltoallv, alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, b, ones, places, MPI_INT, comm);
    FORMS(Alltoallw, alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, b, ones, bytes, ints, comm);
}

static void of_ranks_without_a_part(MPI_Comm comm)
{
    int a[64] = {rank + 1, 7}, b = -1, counts[64];
    for (int without = 0; without < size; without++) {
        for (int i = 0; i < size; i++)
            counts[i] = i != without;
        AT(rank == without, FORMS(Reduce_scatter, reduce_scatter, a, NULL, counts, MPI_INT, MPI_SUM, comm),
           FORMS(Reduce_scatter, reduce_scatter, a, &b, counts, MPI_INT, MPI_SUM, comm));
    }
    AT(rank == 0, FORMS(Exscan, exscan, a, NULL, 1, MPI_INT, MPI_SUM, comm), FORMS(Exscan, exscan, a, &b, 1, MPI_INT, MPI_SUM, comm));
    CHECK(rank == 0 || b == rank * (rank + 1) / 2);
    /* As much as to fill no slot. */
    int *many = calloc(100000, sizeof *many), *results = calloc(100000, sizeof *results);
    MPI_Exscan(many, rank ? results : NULL, 100000, MPI_INT, MPI_MAX, comm);
    for (int i = 0; i < size; i++)
        counts[i] = i == 0 ? 0 : 100000 / size;
    MPI_Reduce_scatter(many, rank ? results : NULL, counts, MPI_INT, MPI_SUM, comm);
    free(many);
    free(results);
}

/* No elements, and no arrays for them. */
static void of_nothing(MPI_Comm comm)
{
    int zeros[64] = {0};
    FORMS(Bcast, bcast, NULL, 0, MPI_INT, 0, comm);
    FORMS(Gather, gather, NULL, 0, MPI_INT, NULL, 0, MPI_INT, 0, comm);
    FORMS(Gatherv, gatherv, NULL, 0, MPI_INT, NULL, zeros, zeros, MPI_INT, 0, comm);
    FORMS(Scatter, scatter, NULL, 0, MPI_INT, NULL, 0, MPI_INT, 0, comm);
    FORMS(Scatterv, scatterv, NULL, zeros, zeros, MPI_INT, NULL, 0, MPI_INT, 0, comm);
    FORMS(Allgather, allgather, NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm);
    FORMS(Allgatherv, allgatherv, NULL, 0, MPI_INT, NULL, zeros, zeros, MPI_INT, comm);
    FORMS(Alltoall, alltoall, NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm);
    FORMS(Alltoallv, alltoallv, NULL, zeros, zeros, MPI_INT, NULL, zeros, zeros, MPI_INT, comm);
    FORMS(Alltoallw, alltoallw, NULL, zeros, zeros, ints, NULL, zeros, zeros, ints, comm);
    FORMS(Reduce, reduce, NULL, NULL, 0, MPI_INT, MPI_SUM, 0, comm);
    FORMS(Allreduce, allreduce, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter, reduce_scatter, NULL, NULL, zeros, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter_block, reduce_scatter_block, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
    FORMS(Scan, scan, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
    FORMS(Exscan, exscan, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
    is(MPI_Reduce_local(NULL, NULL, 0, MPI_INT, MPI_SUM), "MPI_Reduce_local");
}

/* A process without neighbours has no arrays about them. */
static void of_no_neighbours(MPI_Comm comm)
{
    MPI_Comm lonely;
    is(MPI_Dist_graph_create_adjacent(comm, 0, NULL, NULL, 0, NULL, NULL, MPI_INFO_NULL, 0, &lonely), "MPI_Dist_graph_create_adjacent");
    FORMS(Neighbor_allgather, neighbor_allgather, NULL, 0, MPI_INT, NULL, 0, MPI_INT, lonely);
    FORMS(Neighbor_allgatherv, neighbor_allgatherv, NULL, 0, MPI_INT, NULL, NULL, NULL, MPI_INT, lonely);
    FORMS(Neighbor_alltoall, neighbor_alltoall, NULL, 0, MPI_INT, NULL, 0, MPI_INT, lonely);
    FORMS(Neighbor_alltoallv, neighbor_alltoallv, NULL, NULL, NULL, MPI_INT, NULL, NULL, NULL, MPI_INT, lonely);
    FORMS(Neighbor_alltoallw, neighbor_alltoallw, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, lonely);
    is(MPI_Dist_graph_neighbors(lonely, 0, NULL, NULL, 0, NULL, NULL), "MPI_Dist_graph_neighbors");
    MPI_Comm_free(&lonely);
    is(MPI_Dist_graph_create(comm, 0, NULL, NULL, NULL, NULL, MPI_INFO_NULL, 0, &lonely), "MPI_Dist_graph_create");
    MPI_Comm_free(&lonely);
}

/* Of an intercommunicator only the root and the other group have data. */
static void between_groups(MPI_Comm comm)
{
    MPI_Comm half, inter;
    int side = rank > 0, in_half, a[64] = {1}, b[64];
    MPI_Comm_split(comm, side, 0, &half);
    MPI_Comm_rank(half, &in_half);
    /* The peer communicator and the remote leader are for leaders. */
    AT(in_half == 0, is(MPI_Intercomm_create(half, 0, comm, !side, 5, &inter), "MPI_Intercomm_create"),
       is(MPI_Intercomm_create(half, 0, MPI_COMM_NULL, -7, 5, &inter), "MPI_Intercomm_create"));
    int root = side ? 0 : MPI_ROOT;
    AT(!side, FORMS(Bcast, bcast, a, 1, MPI_INT, root, inter), FORMS(Bcast, bcast, b, 1, MPI_INT, root, inter));
    AT(!side, FORMS(Gather, gather, NONE, b, 1, MPI_INT, root, inter), FORMS(Gather, gather, a, 1, MPI_INT, NONE, root, inter));
    AT(!side, FORMS(Gatherv, gatherv, NONE, b, ones, places, MPI_INT, root, inter),
       FORMS(Gatherv, gatherv, a, 1, MPI_INT, NONES, root, inter));
    AT(!side, FORMS(Scatter, scatter, a, 1, MPI_INT, NONE, root, inter), FORMS(Scatter, scatter, NONE, b, 1, MPI_INT, root, inter));
    AT(!side, FORMS(Scatterv, scatterv, a, ones, places, MPI_INT, NONE, root, inter),
       FORMS(Scatterv, scatterv, NONES, b, 1, MPI_INT, root, inter));
    AT(!side, FORMS(Reduce, reduce, NULL, b, 1, MPI_INT, MPI_SUM, root, inter),
       FORMS(Reduce, reduce, a, NULL, 1, MPI_INT, MPI_SUM, root, inter));
    /* And the other way, where all ranks but one of the large group have nothing to do. */
    root = !side ? 0 : in_half == 0 ? MPI_ROOT : MPI_PROC_NULL;
    AT(root == MPI_PROC_NULL, FORMS(Bcast, bcast, NULL, -1, MPI_DATATYPE_NULL, root, inter), FORMS(Bcast, bcast, a, 1, MPI_INT, root, inter));
    AT(root == MPI_PROC_NULL, FORMS(Gather, gather, NONE, NONE, root, inter),
       FORMS(Gather, gather, a, 1, MPI_INT, b, 1, MPI_INT, root, inter));
    AT(root == MPI_PROC_NULL, FORMS(Gatherv, gatherv, NONE, NONES, root, inter),
       FORMS(Gatherv, gatherv, a, 1, MPI_INT, b, ones, places, MPI_INT, root, inter));
    AT(root == MPI_PROC_NULL, FORMS(Scatter, scatter, NONE, NONE, root, inter),
       FORMS(Scatter, scatter, a, 1, MPI_INT, b, 1, MPI_INT, root, inter));
    AT(root == MPI_PROC_NULL, FORMS(Scatterv, scatterv, NONES, NONE, root, inter),
       FORMS(Scatterv, scatterv, a, ones, places, MPI_INT, b, 1, MPI_INT, root, inter));
    AT(root == MPI_PROC_NULL, FORMS(Reduce, reduce, NULL, NULL, -1, MPI_DATATYPE_NULL, MPI_OP_NULL, root, inter),
       FORMS(Reduce, reduce, a, b, 1, MPI_INT, MPI_SUM, root, inter));
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* MPI_NO_OP reads nothing of the origin. */
static void of_no_operation(MPI_Comm comm)
{
    int shown = rank, got = -1, target = (rank + 1) % size;
    MPI_Win win;
    MPI_Request request;
    MPI_Win_create(&shown, sizeof shown, sizeof shown, MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    is(MPI_Get_accumulate(NONE, &got, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_NO_OP, win), "MPI_Get_accumulate");
    MPI_Win_flush(target, win);
    CHECK(got == target);
    is(MPI_Rget_accumulate(NONE, &got, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_NO_OP, win, &request), "MPI_Rget_accumulate");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    is(MPI_Fetch_and_op(NULL, &got, MPI_INT, target, 0, MPI_NO_OP, win), "MPI_Fetch_and_op");
    is(MPI_Put(NULL, 0, MPI_INT, target, 0, 0, MPI_INT, win), "MPI_Put");
    is(MPI_Get(NULL, 0, MPI_INT, target, 0, 0, MPI_INT, win), "MPI_Get");
    is(MPI_Accumulate(NULL, 0, MPI_INT, target, 0, 0, MPI_INT, MPI_SUM, win), "MPI_Accumulate");
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    is(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, comm, &win), "MPI_Win_create");
    MPI_Win_free(&win);
}

/* Lists of nothing, keys of no color, ports and programs of others. */
static void of_other_calls(MPI_Comm comm, char *program)
{
    MPI_Comm made;
    MPI_Group all, none;
    MPI_Datatype type;
    int count, done;
    AT(rank == 0, is(MPI_Comm_split(comm, MPI_UNDEFINED, -1, &made), "MPI_Comm_split"), is(MPI_Comm_split(comm, 1, 0, &made), "MPI_Comm_split"));
    if (made != MPI_COMM_NULL)
        MPI_Comm_free(&made);
    is(MPI_Comm_split_type(comm, MPI_UNDEFINED, -1, MPI_INFO_NULL, &made), "MPI_Comm_split_type");
    is(MPI_Waitall(0, NULL, NULL), "MPI_Waitall");
    is(MPI_Testall(0, NULL, &done, NULL), "MPI_Testall");
    is(MPI_Waitany(0, NULL, &count, NULL), "MPI_Waitany");
    is(MPI_Testany(0, NULL, &count, &done, NULL), "MPI_Testany");
    is(MPI_Waitsome(0, NULL, &count, NULL, NULL), "MPI_Waitsome");
    is(MPI_Testsome(0, NULL, &count, NULL, NULL), "MPI_Testsome");
    is(MPI_Startall(0, NULL), "MPI_Startall");
    MPI_Comm_group(comm, &all);
    is(MPI_Group_incl(all, 0, NULL, &none), "MPI_Group_incl");
    is(MPI_Group_translate_ranks(all, 0, NULL, all, NULL), "MPI_Group_translate_ranks");
    is(MPI_Group_range_incl(all, 0, NULL, &none), "MPI_Group_range_incl");
    MPI_Group_free(&all);
    is(MPI_Type_indexed(0, NULL, NULL, MPI_INT, &type), "MPI_Type_indexed");
    MPI_Type_free(&type);
    is(MPI_Type_create_hindexed(0, NULL, NULL, MPI_INT, &type), "MPI_Type_create_hindexed");
    MPI_Type_free(&type);
    is(MPI_Type_create_indexed_block(0, 0, NULL, MPI_INT, &type), "MPI_Type_create_indexed_block");
    MPI_Type_free(&type);
    is(MPI_Type_create_struct(0, NULL, NULL, NULL, &type), "MPI_Type_create_struct");
    MPI_Type_free(&type);
    is(MPI_Type_get_contents(MPI_COMM_NULL == comm ? MPI_INT : (MPI_Type_dup(MPI_INT, &type), type), 0, 0, 1, NULL, NULL, ints + 63), "MPI_Type_get_contents");
    MPI_Type_free(&type);
    is(MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, comm), "MPI_Send");
    is(MPI_Sendrecv(NULL, 0, MPI_INT, rank, 0, NULL, 0, MPI_INT, rank, 0, comm, MPI_STATUS_IGNORE), "MPI_Sendrecv");
    /* Only the root names what is started, and how. */
    int codes[1] = {-1};
    AT(rank == 0, is(MPI_Comm_spawn(program, (char *[]){"child", NULL}, 1, MPI_INFO_NULL, 0, comm, &made, codes), "MPI_Comm_spawn"),
       is(MPI_Comm_spawn(NULL, NULL, -1, MPI_INFO_NULL, 0, comm, &made, MPI_ERRCODES_IGNORE), "MPI_Comm_spawn"));
    MPI_Comm_disconnect(&made);
    AT(rank == 0,
       is(MPI_Comm_spawn_multiple(1, (char *[]){program}, (char **[]){(char *[]){"child", NULL}}, (int[]){1}, (MPI_Info[]){MPI_INFO_NULL}, 0, comm, &made, codes), "MPI_Comm_spawn_multiple"),
       is(MPI_Comm_spawn_multiple(-1, NULL, NULL, NULL, NULL, 0, comm, &made, MPI_ERRCODES_IGNORE), "MPI_Comm_spawn_multiple"));
    MPI_Comm_disconnect(&made);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 64; i++) {
        ones[i] = 1;
        places[i] = i;
        bytes[i] = i * (int)sizeof(int);
        ints[i] = MPI_INT;
    }
    of_a_root(MPI_COMM_WORLD);
    in_place(MPI_COMM_WORLD);
    of_ranks_without_a_part(MPI_COMM_WORLD);
    of_nothing(MPI_COMM_WORLD);
    of_no_neighbours(MPI_COMM_WORLD);
    if (size > 1)
        between_groups(MPI_COMM_WORLD);
    of_no_operation(MPI_COMM_WORLD);
    of_other_calls(MPI_COMM_WORLD, argv[0]);
    return finish("insignificant");
}
