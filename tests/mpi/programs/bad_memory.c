/* One call with memory that it cannot access: the word says which. `bad` is mapped and not accessible,
   `fixed` may only be read. A rank that is alone is its own target. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define IS(word) (strcmp(what, word) == 0)

enum { LARGE = 1 << 20 };
static char *bad, *fixed, *good;
static int me, ranks, target;

static void *map(int rights)
{
    return mmap(NULL, 2 * LARGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Operations on windows; the other ranks wait in MPI_Win_free. */
static int on_window(const char *what)
{
    static const char *const words[] = {"put", "rput", "get", "rget", "get-fixed", "accumulate", "raccumulate", "fetch",
                                        "fetch-result", "swap", "swap-compare", "swap-result", "get-accumulate",
                                        "get-accumulate-result", "put-gaps", "get-gaps", "put-large", "get-large"};
    int is_mine = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is_mine |= IS(words[i]);
    if (!is_mine)
        return 0;
    MPI_Win win;
    MPI_Request request;
    MPI_Datatype gaps;
    int *base, *good_one = (int *)good;
    MPI_Type_vector(16, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    if (me == 0) {
        if (IS("put")) MPI_Put(bad, 16, MPI_INT, target, 0, 16, MPI_INT, win);
        if (IS("put-large")) MPI_Put(bad, LARGE, MPI_CHAR, target, 0, LARGE, MPI_CHAR, win);
        if (IS("rput")) MPI_Rput(bad, 16, MPI_INT, target, 0, 16, MPI_INT, win, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (IS("get")) MPI_Get(bad, 16, MPI_INT, target, 0, 16, MPI_INT, win);
        if (IS("get-large")) MPI_Get(bad, LARGE, MPI_CHAR, target, 0, LARGE, MPI_CHAR, win);
        if (IS("get-fixed")) MPI_Get(fixed, 16, MPI_INT, target, 0, 16, MPI_INT, win);
        if (IS("rget")) MPI_Rget(bad, 16, MPI_INT, target, 0, 16, MPI_INT, win, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (IS("put-gaps")) MPI_Put(bad, 1, gaps, target, 0, 16, MPI_INT, win);
        if (IS("get-gaps")) MPI_Get(fixed, 1, gaps, target, 0, 16, MPI_INT, win);
        if (IS("accumulate")) MPI_Accumulate(bad, 16, MPI_INT, target, 0, 16, MPI_INT, MPI_SUM, win);
        if (IS("raccumulate"))
            MPI_Raccumulate(bad, 16, MPI_INT, target, 0, 16, MPI_INT, MPI_SUM, win, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (IS("fetch")) MPI_Fetch_and_op(bad, good, MPI_INT, target, 0, MPI_SUM, win);
        if (IS("fetch-result")) MPI_Fetch_and_op(good, fixed, MPI_INT, target, 0, MPI_SUM, win);
        if (IS("swap")) MPI_Compare_and_swap(bad, good_one, good_one + 1, MPI_INT, target, 0, win);
        if (IS("swap-compare")) MPI_Compare_and_swap(good, bad, good_one + 1, MPI_INT, target, 0, win);
        if (IS("swap-result")) MPI_Compare_and_swap(good_one + 1, good, fixed, MPI_INT, target, 0, win);
        if (IS("get-accumulate"))
            MPI_Get_accumulate(bad, 16, MPI_INT, good, 16, MPI_INT, target, 0, 16, MPI_INT, MPI_SUM, win);
        if (IS("get-accumulate-result"))
            MPI_Get_accumulate(good, 16, MPI_INT, fixed, 16, MPI_INT, target, 0, 16, MPI_INT, MPI_SUM, win);
        MPI_Win_flush_all(win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return 1;
}

static void on_file(const char *what)
{
    MPI_File file;
    int is_read = strncmp(what, "file-read", 9) == 0;
    MPI_File_open(MPI_COMM_SELF, getenv("BAD_MEMORY_FILE"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_write(file, good, LARGE, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    if (strstr(what, "gaps")) {
        MPI_Datatype gaps;
        MPI_Type_vector(16, 1, 2, MPI_INT, &gaps);
        MPI_Type_commit(&gaps);
        if (is_read)
            MPI_File_read(file, fixed, 1, gaps, MPI_STATUS_IGNORE);
        else
            MPI_File_write(file, bad, 1, gaps, MPI_STATUS_IGNORE);
    } else if (is_read)
        MPI_File_read(file, fixed, 64, MPI_CHAR, MPI_STATUS_IGNORE);
    else
        MPI_File_write(file, bad, 64, MPI_CHAR, MPI_STATUS_IGNORE);
}

/* Each call that moves data, "file.NAME": on a file of all ranks. */
static void on_files(const char *what)
{
    MPI_File file;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status *none = MPI_STATUS_IGNORE;
    MPI_Offset at = 64 * me;
    char *into = me == 0 ? fixed : good, *from = me == 0 ? bad : good;
    MPI_File_open(MPI_COMM_WORLD, getenv("BAD_MEMORY_FILE"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    if (me == 0) MPI_File_write_at(file, 0, good, LARGE, MPI_CHAR, none);
    MPI_Barrier(MPI_COMM_WORLD);
    if (IS("file.read")) MPI_File_read(file, into, 64, MPI_CHAR, none);
    if (IS("file.read_at")) MPI_File_read_at(file, at, into, 64, MPI_CHAR, none);
    if (IS("file.read_all")) MPI_File_read_all(file, into, 64, MPI_CHAR, none);
    if (IS("file.read_at_all")) MPI_File_read_at_all(file, at, into, 64, MPI_CHAR, none);
    if (IS("file.read_shared")) MPI_File_read_shared(file, into, 64, MPI_CHAR, none);
    if (IS("file.read_ordered")) MPI_File_read_ordered(file, into, 64, MPI_CHAR, none);
    if (IS("file.iread")) MPI_File_iread(file, into, 64, MPI_CHAR, &request);
    if (IS("file.iread_at")) MPI_File_iread_at(file, at, into, 64, MPI_CHAR, &request);
    if (IS("file.iread_all")) MPI_File_iread_all(file, into, 64, MPI_CHAR, &request);
    if (IS("file.iread_at_all")) MPI_File_iread_at_all(file, at, into, 64, MPI_CHAR, &request);
    if (IS("file.iread_shared")) MPI_File_iread_shared(file, into, 64, MPI_CHAR, &request);
    if (IS("file.read_all_begin")) MPI_File_read_all_begin(file, into, 64, MPI_CHAR), MPI_File_read_all_end(file, into, none);
    if (IS("file.read_at_all_begin"))
        MPI_File_read_at_all_begin(file, at, into, 64, MPI_CHAR), MPI_File_read_at_all_end(file, into, none);
    if (IS("file.read_ordered_begin"))
        MPI_File_read_ordered_begin(file, into, 64, MPI_CHAR), MPI_File_read_ordered_end(file, into, none);
    if (IS("file.write")) MPI_File_write(file, from, 64, MPI_CHAR, none);
    if (IS("file.write_at")) MPI_File_write_at(file, at, from, 64, MPI_CHAR, none);
    if (IS("file.write_all")) MPI_File_write_all(file, from, 64, MPI_CHAR, none);
    if (IS("file.write_at_all")) MPI_File_write_at_all(file, at, from, 64, MPI_CHAR, none);
    if (IS("file.write_shared")) MPI_File_write_shared(file, from, 64, MPI_CHAR, none);
    if (IS("file.write_ordered")) MPI_File_write_ordered(file, from, 64, MPI_CHAR, none);
    if (IS("file.iwrite")) MPI_File_iwrite(file, from, 64, MPI_CHAR, &request);
    if (IS("file.iwrite_at")) MPI_File_iwrite_at(file, at, from, 64, MPI_CHAR, &request);
    if (IS("file.iwrite_all")) MPI_File_iwrite_all(file, from, 64, MPI_CHAR, &request);
    if (IS("file.iwrite_at_all")) MPI_File_iwrite_at_all(file, at, from, 64, MPI_CHAR, &request);
    if (IS("file.iwrite_shared")) MPI_File_iwrite_shared(file, from, 64, MPI_CHAR, &request);
    if (IS("file.write_all_begin")) MPI_File_write_all_begin(file, from, 64, MPI_CHAR), MPI_File_write_all_end(file, from, none);
    if (IS("file.write_at_all_begin"))
        MPI_File_write_at_all_begin(file, at, from, 64, MPI_CHAR), MPI_File_write_at_all_end(file, from, none);
    if (IS("file.write_ordered_begin"))
        MPI_File_write_ordered_begin(file, from, 64, MPI_CHAR), MPI_File_write_ordered_end(file, from, none);
    MPI_Wait(&request, none);
    MPI_File_close(&file);
}

static void other(const char *what)
{
    int position = 0, *numbers = (int *)good;
    void *one_fixed = me == 0 ? fixed : good, *one_bad = me == 0 ? bad : good + 4096;
    MPI_Request requests[2];
    MPI_Comm comm = MPI_COMM_WORLD;
    if (IS("self")) MPI_Sendrecv(bad, 64, MPI_CHAR, me, 0, good, 64, MPI_CHAR, me, 0, comm, MPI_STATUS_IGNORE);
    if (IS("self-received")) MPI_Sendrecv(good, 64, MPI_CHAR, me, 0, fixed, 64, MPI_CHAR, me, 0, comm, MPI_STATUS_IGNORE);
    if (IS("self-large")) MPI_Sendrecv(good, LARGE, MPI_CHAR, me, 0, fixed, LARGE, MPI_CHAR, me, 0, comm, MPI_STATUS_IGNORE);
    if (IS("replace"))
        MPI_Sendrecv_replace(one_fixed, 64, MPI_CHAR, target ? 1 - me : me, 0, target ? 1 - me : me, 0, comm, MPI_STATUS_IGNORE);
    if (IS("later"))
        MPI_Irecv(fixed, 64, MPI_CHAR, me, 0, comm, &requests[0]), MPI_Isend(good, 64, MPI_CHAR, me, 0, comm, &requests[1]),
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (IS("status")) MPI_Sendrecv(good, 64, MPI_CHAR, me, 0, good + 64, 64, MPI_CHAR, me, 0, comm, (MPI_Status *)fixed);
    if (IS("send")) me == 0 ? MPI_Send(bad, 64, MPI_CHAR, target, 0, comm) : MPI_Recv(good, 64, MPI_CHAR, 0, 0, comm, MPI_STATUS_IGNORE);
    if (IS("send-large"))
        me == 0 ? MPI_Send(bad, LARGE, MPI_CHAR, target, 0, comm) : MPI_Recv(good, LARGE, MPI_CHAR, 0, 0, comm, MPI_STATUS_IGNORE);
    if (IS("receive")) me == 0 ? MPI_Recv(fixed, 64, MPI_CHAR, target, 0, comm, MPI_STATUS_IGNORE) : MPI_Send(good, 64, MPI_CHAR, 0, 0, comm);
    if (IS("receive-large"))
        me == 0 ? MPI_Recv(fixed, LARGE, MPI_CHAR, target, 0, comm, MPI_STATUS_IGNORE) : MPI_Send(good, LARGE, MPI_CHAR, 0, 0, comm);
    if (IS("bsend")) MPI_Buffer_attach(good, LARGE), MPI_Bsend(bad, 64, MPI_CHAR, target, 0, comm);
    if (IS("bcast")) MPI_Bcast(one_bad, 64, MPI_CHAR, 0, comm);
    if (IS("bcast-large")) MPI_Bcast(one_bad, LARGE, MPI_CHAR, 0, comm);
    if (IS("reduce")) MPI_Reduce(one_bad, good, 16, MPI_INT, MPI_SUM, 0, comm);
    if (IS("allreduce")) MPI_Allreduce(one_bad, good, 16, MPI_INT, MPI_SUM, comm);
    if (IS("allreduce-result")) MPI_Allreduce(good + 64, one_fixed, 16, MPI_INT, MPI_SUM, comm);
    if (IS("gather")) MPI_Gather(good, 64, MPI_CHAR, one_fixed, 64, MPI_CHAR, 0, comm);
    if (IS("scatter")) MPI_Scatter(one_bad, 64, MPI_CHAR, good, 64, MPI_CHAR, 0, comm);
    if (IS("allgather")) MPI_Allgather(good, 64, MPI_CHAR, one_fixed, 64, MPI_CHAR, comm);
    if (IS("alltoall")) MPI_Alltoall(one_bad, 64, MPI_CHAR, good, 64, MPI_CHAR, comm);
    if (IS("alltoallv-counts"))
        MPI_Alltoallv(good, me == 0 ? (int *)bad : numbers, numbers, MPI_CHAR, good, numbers, numbers, MPI_CHAR, comm);
    if (IS("scan")) MPI_Scan(one_bad, good, 16, MPI_INT, MPI_SUM, comm);
    if (IS("reduce-local")) MPI_Reduce_local(bad, good, 16, MPI_INT, MPI_SUM);
    if (IS("pack")) MPI_Pack(bad, 64, MPI_CHAR, good, 64, &position, comm);
    if (IS("pack-into")) MPI_Pack(good, 64, MPI_CHAR, fixed, 64, &position, comm);
    if (IS("unpack")) MPI_Unpack(good, 64, &position, fixed, 64, MPI_CHAR, comm);
    if (IS("comm-rank")) MPI_Comm_rank(comm, (int *)fixed);
}

static void touch(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)count, (void)type;
    memcpy(bad, inout, 4);
}

/* A handler that gives the signal to the one before it, and takes it for handled then, as virtual machines do. */
static struct sigaction before;

static void chain(int signal, siginfo_t *info, void *context)
{
    before.sa_sigaction(signal, info, context);
}

static void set_chain(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = chain;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before);
    if (!(before.sa_flags & SA_SIGINFO)) exit(9);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *what = argv[1];
    target = ranks == 1 ? 0 : 1;
    bad = map(PROT_NONE), fixed = map(PROT_READ), good = map(PROT_READ | PROT_WRITE);
    /* What is printed before is not lost. */
    printf("rank %d goes\n", me);
    if (strncmp(what, "chained-", 8) == 0) {
        set_chain();
        what += 8;
    }
    if (IS("sent")) {
        if (me == 0) raise(SIGSEGV);
    } else if (IS("program")) {
        if (me == 0) *(volatile char *)bad = 1;
    } else if (IS("operation")) {
        MPI_Op op;
        MPI_Op_create(touch, 1, &op);
        MPI_Reduce_local(good, good + 64, 1, MPI_INT, op);
    } else if (strncmp(what, "file.", 5) == 0)
        on_files(what);
    else if (strncmp(what, "file", 4) == 0)
        on_file(what);
    else if (!on_window(what))
        other(what);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
