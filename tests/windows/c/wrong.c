/* Wrong arguments and wrong order of calls: the standard's error class, and the window works on. Two ranks. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int me, ranks, failures;

static void expect(int line, const char *call, int code, int wanted)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    if (class != wanted)
        printf("rank %d, line %d: %s gives class %d, not %d: %s\n", me, line, call, class, wanted, text), failures++;
    if (getenv("TUTTI_TEXTS") && me == 0 && code)
        printf("%s\n", text);
}
#define EXPECT(call, wanted) expect(__LINE__, #call, call, wanted)

static void ended(int line, const char *call, int code, MPI_Request *request)
{
    expect(line, call, code, MPI_ERR_BUFFER);
    if (code == MPI_SUCCESS)
        MPI_Wait(request, MPI_STATUS_IGNORE);
}
#define ENDED(call) ended(__LINE__, #call, call, &request)

/* The same of calls that change elements: `bad` cannot be read, `fixed` cannot be written. The last element of
   memory that ends in front of `bad` is good. */
static void wrong_memory_of_changes(int other, MPI_Win win, int *good, int *bad, int *fixed)
{
    MPI_Request request;
    EXPECT(MPI_Accumulate(bad, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Accumulate(bad, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_REPLACE, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Accumulate(bad - 2, 4, MPI_INT, other, 0, 4, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Accumulate(bad - 1, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_SUCCESS);
    ENDED(MPI_Raccumulate(bad, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win, &request));
    EXPECT(MPI_Get_accumulate(bad, 1, MPI_INT, good, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Get_accumulate(good, 1, MPI_INT, bad, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Get_accumulate(good, 1, MPI_INT, fixed, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Get_accumulate(NULL, 0, MPI_INT, fixed, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_NO_OP, win),
           MPI_ERR_BUFFER);
    ENDED(MPI_Rget_accumulate(good, 1, MPI_INT, fixed, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win, &request));
    EXPECT(MPI_Fetch_and_op(bad, good, MPI_INT, other, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Fetch_and_op(good, fixed, MPI_INT, other, 0, MPI_REPLACE, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Fetch_and_op(NULL, bad, MPI_INT, other, 0, MPI_NO_OP, win), MPI_ERR_BUFFER);
}

/* The same of data with gaps: `edge` has 64 bytes in front of memory that cannot be accessed. */
static void wrong_memory_with_gaps(int other, MPI_Win win, char *good, char *edge, char *fixed)
{
    MPI_Datatype gaps;
    int *good_elements = (int *)good;
    MPI_Type_vector(16, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    EXPECT(MPI_Put(edge, 1, gaps, other, 0, 64, MPI_BYTE, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Put(edge - 60, 1, gaps, other, 0, 64, MPI_BYTE, win), MPI_SUCCESS);
    EXPECT(MPI_Get(edge, 1, gaps, other, 0, 64, MPI_BYTE, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Get(fixed, 1, gaps, other, 0, 64, MPI_BYTE, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Accumulate(edge, 1, gaps, other, 0, 16, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Get_accumulate(good_elements, 16, MPI_INT, fixed, 1, gaps, other, 0, 16, MPI_INT, MPI_SUM, win),
           MPI_ERR_BUFFER);
    EXPECT(MPI_Get_accumulate(edge, 1, gaps, good_elements, 16, MPI_INT, other, 0, 16, MPI_INT, MPI_SUM, win),
           MPI_ERR_BUFFER);
    MPI_Type_free(&gaps);
}

/* Memory that may not be accessed at the origin, or at the target: each is told from the other, where the kernel
   copies. Between nodes such memory ends the job. */
static void wrong_memory(int other)
{
    MPI_Comm node;
    int here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    if (here < ranks)
        return;
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *fixed = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *good = calloc(2, page);
    MPI_Win own, read_only;
    MPI_Win_create(memory, page, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own);
    MPI_Win_create(fixed, page, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &read_only);
    MPI_Win_set_errhandler(own, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(read_only, MPI_ERRORS_RETURN);
    mprotect(memory + page, page, PROT_NONE);
    MPI_Win_lock_all(0, own), MPI_Win_lock_all(0, read_only);
    EXPECT(MPI_Put(memory + page, 64, MPI_CHAR, other, 0, 64, MPI_CHAR, own), MPI_ERR_BUFFER);
    EXPECT(MPI_Put(memory + page - 32, 64, MPI_CHAR, other, 0, 64, MPI_CHAR, own), MPI_ERR_BUFFER);
    EXPECT(MPI_Get(fixed, 64, MPI_CHAR, other, 0, 64, MPI_CHAR, own), MPI_ERR_BUFFER);
    int *bad = (int *)(memory + page), *zero = (int *)good, *one = zero + 1;
    EXPECT(MPI_Compare_and_swap(one, zero, bad, MPI_INT, other, 0, own), MPI_ERR_BUFFER);
    EXPECT(MPI_Compare_and_swap(bad, zero, zero + 2, MPI_INT, other, 0, own), MPI_ERR_BUFFER);
    EXPECT(MPI_Compare_and_swap(one, zero, fixed, MPI_INT, other, 0, own), MPI_ERR_BUFFER);
    EXPECT(MPI_Compare_and_swap(one, zero, zero + 2, MPI_INT, other, 0, read_only), MPI_ERR_RMA_RANGE);
    EXPECT(MPI_Compare_and_swap(one, bad, zero + 2, MPI_INT, other, 0, own), MPI_ERR_BUFFER);
    wrong_memory_of_changes(other, own, zero, bad, (int *)fixed);
    EXPECT(MPI_Accumulate(good, 64, MPI_CHAR, other, 0, 64, MPI_CHAR, MPI_REPLACE, read_only), MPI_ERR_RMA_RANGE);
    wrong_memory_with_gaps(other, own, good, memory + page - 64, fixed);
    EXPECT(MPI_Put(good, 64, MPI_CHAR, other, 0, 64, MPI_CHAR, read_only), MPI_ERR_RMA_RANGE);
    EXPECT(MPI_Get(good, 64, MPI_CHAR, other, 0, 64, MPI_CHAR, read_only), MPI_SUCCESS);
    MPI_Win_unlock_all(own), MPI_Win_unlock_all(read_only);
    MPI_Win_free(&own), MPI_Win_free(&read_only);
    munmap(memory, 2 * page), munmap(fixed, page), free(good);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Win win, dynamic, nothing = MPI_WIN_NULL;
    int *memory, value = 1, found = 0, other = 1 - me, flag;
    double real = 1;
    MPI_Info info;
    void *base;
    MPI_Aint size;

    /* Arguments of one rank that are wrong: no rank has a window, none waits for ever. */
    EXPECT(MPI_Win_allocate(me == 1 ? -8 : 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win),
           me == 1 ? MPI_ERR_SIZE : MPI_ERR_OTHER);
    EXPECT(MPI_Win_create(&value, 4, me == 0 ? 0 : 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win),
           me == 0 ? MPI_ERR_DISP : MPI_ERR_OTHER);
    EXPECT(MPI_Win_create(NULL, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_BASE);
    EXPECT(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    EXPECT(MPI_Win_allocate((MPI_Aint)1 << 60, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win), MPI_ERR_NO_MEM);
    EXPECT(MPI_Win_free(&nothing), MPI_ERR_WIN);
    EXPECT(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_WIN);

    MPI_Win_allocate(40, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
    memset(memory, 0, 40);
    /* The other rank puts into it. */
    MPI_Barrier(MPI_COMM_WORLD);

    /* Outside an epoch. */
    EXPECT(MPI_Put(&value, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_flush(other, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_lock(17, other, 0, win), MPI_ERR_LOCKTYPE);
    EXPECT(MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win), MPI_ERR_RANK);
    EXPECT(MPI_Win_lock(MPI_LOCK_SHARED, other, 1 << 20, win), MPI_ERR_ASSERT);
    EXPECT(MPI_Win_fence(1 << 20, win), MPI_ERR_ASSERT);
    EXPECT(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);

    /* Two epochs at once. */
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    EXPECT(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Put(&value, 1, MPI_INT, me, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    EXPECT(MPI_Win_flush(me, win), MPI_ERR_RMA_SYNC);

    /* Arguments of operations. */
    EXPECT(MPI_Put(&value, 1, MPI_INT, other, 10, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    EXPECT(MPI_Put(&value, 1, MPI_INT, other, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    EXPECT(MPI_Put(&value, 1, MPI_INT, other, (MPI_Aint)1 << 62, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    EXPECT(MPI_Get(&value, 1, MPI_INT, other, 0, 11, MPI_INT, win), MPI_ERR_RMA_RANGE);
    EXPECT(MPI_Put(&value, -1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    EXPECT(MPI_Put(&value, 1, MPI_INT, other, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    EXPECT(MPI_Put(&value, 1, MPI_INT, other, 0, 2, MPI_INT, win), MPI_ERR_TYPE);
    EXPECT(MPI_Put(&value, 1, MPI_DATATYPE_NULL, other, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    EXPECT(MPI_Put(NULL, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Put(&value, 1, MPI_INT, 2, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    EXPECT(MPI_Accumulate(&value, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    EXPECT(MPI_Accumulate(&real, 1, MPI_DOUBLE, other, 0, 1, MPI_DOUBLE, MPI_BXOR, win), MPI_ERR_OP);
    EXPECT(MPI_Accumulate(&real, 1, MPI_FLOAT, other, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_TYPE);
    EXPECT(MPI_Accumulate(&value, 1, MPI_INT, other, 10, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_RANGE);
    EXPECT(MPI_Fetch_and_op(&value, NULL, MPI_INT, other, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Compare_and_swap(&real, &real, &real, MPI_DOUBLE, other, 0, win), MPI_ERR_TYPE);
    EXPECT(MPI_Compare_and_swap(&value, NULL, &found, MPI_INT, other, 0, win), MPI_ERR_BUFFER);
    EXPECT(MPI_Put(&value, 1, MPI_INT, other, 3, 1, MPI_INT, win), MPI_SUCCESS);
    MPI_Win_unlock(other, win);

    wrong_memory(other);

    /* Other calls. */
    EXPECT(MPI_Win_attach(win, &value, 4), MPI_ERR_RMA_FLAVOR);
    EXPECT(MPI_Win_detach(win, &value), MPI_ERR_RMA_FLAVOR);
    EXPECT(MPI_Win_shared_query(dynamic, 0, &size, &value, &base), MPI_ERR_RMA_FLAVOR);
    EXPECT(MPI_Win_shared_query(win, 2, &size, &value, &base), MPI_ERR_RANK);
    EXPECT(MPI_Win_attach(dynamic, memory, -1), MPI_ERR_SIZE);
    EXPECT(MPI_Win_attach(dynamic, memory, 40), MPI_SUCCESS);
    EXPECT(MPI_Win_attach(dynamic, memory + 1, 40), MPI_ERR_RMA_ATTACH);
    EXPECT(MPI_Win_detach(dynamic, memory + 1), MPI_ERR_RMA_ATTACH);
    /* Memory of no bytes is detached as other memory is. */
    EXPECT(MPI_Win_attach(dynamic, memory + 1, 0), MPI_SUCCESS);
    EXPECT(MPI_Win_attach(dynamic, NULL, 0), MPI_SUCCESS);
    EXPECT(MPI_Win_detach(dynamic, memory + 1), MPI_SUCCESS);
    EXPECT(MPI_Win_detach(dynamic, NULL), MPI_SUCCESS);
    EXPECT(MPI_Win_detach(dynamic, memory + 1), MPI_ERR_RMA_ATTACH);
    MPI_Win_lock(MPI_LOCK_SHARED, me, 0, dynamic);
    MPI_Aint address;
    MPI_Get_address(&address, &address);
    EXPECT(MPI_Put(&value, 1, MPI_INT, me, address, 1, MPI_INT, dynamic), MPI_ERR_RMA_RANGE);
    MPI_Win_unlock(me, dynamic);
    EXPECT(MPI_Win_set_attr(win, MPI_WIN_SIZE, NULL), MPI_ERR_KEYVAL);
    EXPECT(MPI_Win_set_errhandler(win, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    MPI_Info_create(&info);
    EXPECT(MPI_Win_set_info(win, info), MPI_SUCCESS);
    EXPECT(MPI_Win_set_info(win, MPI_INFO_NULL), MPI_ERR_INFO);
    MPI_Info_free(&info);

    MPI_Barrier(MPI_COMM_WORLD);
    if (memory[3] != 1)
        printf("rank %d: the right put has not come\n", me), failures++;
    MPI_Win_detach(dynamic, memory);
    MPI_Win_free(&dynamic), MPI_Win_free(&win);
    EXPECT(MPI_Win_fence(0, win), MPI_ERR_WIN);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && failures == 0)
        puts("wrong: all right");
    MPI_Finalize();
    return failures != 0;
}
