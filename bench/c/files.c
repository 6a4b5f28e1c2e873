/*
 * Files of a file system in memory: collective access to a block-distributed array, and contiguous requests of
 * one rank beside plain system calls.
 *
 *   files [--budget-ms 40]
 *
 * op=collective_write, collective_read: 64x64x64 doubles of each rank, cut in the two fastest dimensions.
 * op=write, read: 1 MiB at a time of rank 0; op=pwrite, pread: the same without MPI.
 */
#include "bench.h"

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

enum { SIDE = 64, REQUEST = 1 << 20, REQUESTS = 16 };

static int rank, size, plain;
static MPI_File file;
static double *block;
static char *request;
static double budget_ms;

static void collective_write(void) {
    MPI_File_write_at_all(file, 0, block, SIDE * SIDE * SIDE, MPI_DOUBLE, MPI_STATUS_IGNORE);
}

static void collective_read(void) {
    MPI_File_read_at_all(file, 0, block, SIDE * SIDE * SIDE, MPI_DOUBLE, MPI_STATUS_IGNORE);
}

static void write_requests(void) {
    for (int i = 0; i < REQUESTS; i++)
        MPI_File_write_at(file, (MPI_Offset)i * REQUEST, request, REQUEST, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void read_requests(void) {
    for (int i = 0; i < REQUESTS; i++)
        MPI_File_read_at(file, (MPI_Offset)i * REQUEST, request, REQUEST, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void plain_writes(void) {
    for (int i = 0; i < REQUESTS; i++)
        if (pwrite(plain, request, REQUEST, (off_t)i * REQUEST) != REQUEST)
            abort();
}

static void plain_reads(void) {
    for (int i = 0; i < REQUESTS; i++)
        if (pread(plain, request, REQUEST, (off_t)i * REQUEST) != REQUEST)
            abort();
}

/* Times an operation of all ranks, or of rank 0 while the others wait. */
static void time_op(const char *op, void (*action)(void), int collective) {
    struct samples samples = samples_new();
    double begin = now_ns();
    int more = 1;
    action();
    MPI_Barrier(MPI_COMM_WORLD);
    while (more) {
        double start = now_ns();
        if (collective || rank == 0)
            action();
        if (rank == 0) {
            samples_add(&samples, now_ns() - start);
            more = samples.count < 5 || (now_ns() - begin < budget_ms * 1e6 && samples.count < samples.room);
        }
        if (collective)
            MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        else if (rank > 0)
            break;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        double count = collective ? 1 : REQUESTS;
        printf("files op=%s ranks=%d n=%zu median_ns=%.0f p99_ns=%.0f\n", op, size, samples.count,
               samples_quantile(&samples, 0.5) / count, samples_quantile(&samples, 0.99) / count);
        fflush(stdout);
    }
    free(samples.ns);
}

int main(int argc, char **argv) {
    char path[64];
    int dims[2] = {0, 0}, sizes[3], subsizes[3] = {SIDE, SIDE, SIDE}, starts[3];
    MPI_Datatype place;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    budget_ms = option_number(argc, argv, "--budget-ms", 40);
    int pid = (int)getpid();
    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/dev/shm/tutti-bench-%d", pid);
    MPI_Dims_create(size, 2, dims);
    sizes[0] = SIDE, sizes[1] = SIDE * dims[1], sizes[2] = SIDE * dims[0];
    starts[0] = 0, starts[1] = SIDE * (rank % dims[1]), starts[2] = SIDE * (rank / dims[1]);
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &place);
    MPI_Type_commit(&place);
    block = calloc(SIDE * SIDE * SIDE, sizeof *block);
    request = malloc(REQUEST);
    memset(request, 7, REQUEST);
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    if (MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    plain = open(path, O_RDWR);
    write_requests();
    MPI_Barrier(MPI_COMM_WORLD);
    time_op("write", write_requests, 0);
    time_op("pwrite", plain_writes, 0);
    time_op("read", read_requests, 0);
    time_op("pread", plain_reads, 0);
    MPI_File_set_view(file, 0, MPI_DOUBLE, place, "native", MPI_INFO_NULL);
    time_op("collective_write", collective_write, 1);
    time_op("collective_read", collective_read, 1);
    close(plain);
    MPI_File_close(&file);
    MPI_Type_free(&place);
    MPI_Finalize();
    return 0;
}
