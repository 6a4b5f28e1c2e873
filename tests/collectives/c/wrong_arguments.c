/*
 * Wrong arguments to collective operations: each gives the standard's error class, and leaves nothing behind.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures, rank;

static void expect(const char *what, int code, int class, const char *named) {
    int found, length;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    if (found != class) {
        printf("rank %d: %s: class %d instead of %d: %s\n", rank, what, found, class, text);
        failures++;
    } else if (named != NULL && getenv("TUTTI_TEXTS") != NULL && strstr(text, named) == NULL) {
        printf("rank %d: %s: the text does not name %s: %s\n", rank, what, named, text);
        failures++;
    }
}

int main(int argc, char **argv) {
    int size, in[8] = {0}, out[8], counts[8] = {1, 1, 1, 1, 1, 1, 1, 1}, displacements[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    double real[8] = {0}, sum[8];
    MPI_Op op = MPI_SUM;
    MPI_Request request;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    expect("bcast: root too large", MPI_Bcast(in, 1, MPI_INT, size, comm), MPI_ERR_ROOT, "root");
    expect("bcast: root negative", MPI_Bcast(in, 1, MPI_INT, -7, comm), MPI_ERR_ROOT, "-7");
    expect("bcast: count negative", MPI_Bcast(in, -1, MPI_INT, 0, comm), MPI_ERR_COUNT, "-1");
    expect("bcast: no type", MPI_Bcast(in, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    expect("bcast: no buffer", MPI_Bcast(NULL, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER, "buffer");
    expect("bcast: in place", MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER, "MPI_IN_PLACE");
    expect("barrier: no communicator", MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "MPI_COMM_NULL");
    expect("gather: root", MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, 99, comm), MPI_ERR_ROOT, "99");
    expect("scatterv: root", MPI_Scatterv(in, counts, displacements, MPI_INT, out, 1, MPI_INT, 99, comm),
           MPI_ERR_ROOT, "99");
    expect("allgather: count", MPI_Allgather(in, -3, MPI_INT, out, 1, MPI_INT, comm), MPI_ERR_COUNT, "-3");
    expect("allgather: recvbuf in place", MPI_Allgather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm),
           MPI_ERR_BUFFER, "recvbuf");
    counts[0] = -5;
    expect("alltoallv: count", MPI_Alltoallv(in, counts, displacements, MPI_INT, out, counts, displacements, MPI_INT, comm),
           MPI_ERR_COUNT, "-5");
    expect("reduce_scatter: count", MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "-5");
    counts[0] = 1;
    expect("allreduce: bits of doubles", MPI_Allreduce(real, sum, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP,
           "MPI_BAND");
    expect("allreduce: location of ints", MPI_Allreduce(in, out, 1, MPI_INT, MPI_MINLOC, comm), MPI_ERR_OP,
           "MPI_MINLOC");
    expect("allreduce: no operation", MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP, "MPI_OP_NULL");
    expect("allreduce: recvbuf in place", MPI_Allreduce(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER,
           "recvbuf");
    expect("allreduce: no recvbuf", MPI_Allreduce(in, NULL, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, NULL);
    expect("allreduce: count", MPI_Allreduce(in, out, -2, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT, "-2");
    expect("scan: complex maximum", MPI_Scan(real, sum, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX, comm), MPI_ERR_OP, "MPI_MAX");
    expect("reduce: root", MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, -1, comm), MPI_ERR_ROOT, "-1");
    expect("iallreduce: operation", MPI_Iallreduce(in, out, 1, MPI_INT, MPI_NO_OP, comm, &request), MPI_ERR_OP,
           "MPI_NO_OP");
    expect("ibcast: root", MPI_Ibcast(in, 1, MPI_INT, 50, comm, &request), MPI_ERR_ROOT, "50");
    expect("op_free: predefined", MPI_Op_free(&op), MPI_ERR_OP, "predefined");
    op = MPI_OP_NULL;
    expect("op_free: null", MPI_Op_free(&op), MPI_ERR_OP, "MPI_OP_NULL");
    expect("reduce_local: operation", MPI_Reduce_local(real, sum, 1, MPI_DOUBLE, MPI_BAND), MPI_ERR_OP, NULL);
    /* One memory for what is read and written. */
    expect("allreduce: one memory", MPI_Allreduce(out, out, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER, "MPI_IN_PLACE");
    expect("iscan: one memory", MPI_Iscan(out, out, 1, MPI_INT, MPI_SUM, comm, &request), MPI_ERR_BUFFER, NULL);
    expect("allgather: one memory", MPI_Allgather(out + rank, 1, MPI_INT, out, 1, MPI_INT, comm), MPI_ERR_BUFFER, NULL);
    expect("alltoall: one memory", MPI_Alltoall(out, 1, MPI_INT, out, 1, MPI_INT, comm), MPI_ERR_BUFFER, NULL);
    expect("alltoallv: one memory",
           MPI_Alltoallv(out, counts, displacements, MPI_INT, out, counts, displacements, MPI_INT, comm),
           MPI_ERR_BUFFER, NULL);
    expect("gather: one memory", MPI_Gather(out, 1, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER, NULL);
    expect("scatterv: one memory",
           MPI_Scatterv(out, counts, displacements, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER, NULL);
    expect("reduce_local: one memory", MPI_Reduce_local(out, out, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER, NULL);
    expect("allreduce: of nothing", MPI_Allreduce(out, out, 0, MPI_INT, MPI_SUM, comm), MPI_SUCCESS, NULL);
    expect("allgather: of nothing", MPI_Allgather(out, 0, MPI_INT, out, 0, MPI_INT, comm), MPI_SUCCESS, NULL);

    /* Nothing was left behind: the communicator still works. */
    in[0] = rank + 1;
    expect("allreduce", MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS, NULL);
    if (out[0] != size * (size + 1) / 2) {
        printf("rank %d: allreduce gives %d\n", rank, out[0]);
        failures++;
    }
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, comm);
    if (rank == 0 && failures == 0) {
        printf("wrong arguments: all right\n");
    }
    MPI_Finalize();
    return failures != 0;
}
