/* What differs between MPICH's binary interface and ours, piece by piece: compiled by MPICH's own mpicc. Each check
 * compares with a constant of MPICH's header; rank 0 prints "interface: all right" if no rank has found anything. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wrong, rank, size;
#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #what); \
            wrong++; \
        } \
    } while (0)

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static void sum_of(void *in, void *inout, int *length, MPI_Datatype *type)
{
    CHECK(*type == MPI_INT);
    for (int i = 0; i < *length; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static int handled;
static void handler(MPI_Comm *comm, int *code, ...)
{
    CHECK(*comm == MPI_COMM_WORLD);
    handled = class_of(*code);
}
static void window_handler(MPI_Win *win, int *code, ...)
{
    CHECK(*win != MPI_WIN_NULL);
    handled = class_of(*code);
}
static void file_handler(MPI_File *file, int *code, ...)
{
    CHECK(*file != MPI_FILE_NULL);
    handled = class_of(*code);
}

static int copies, deletes;
static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    CHECK(comm == MPI_COMM_WORLD && *(int *)extra == key);
    *(void **)out = (char *)in + 1;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}
static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    CHECK(comm != MPI_COMM_NULL && *(int *)extra == key && value != NULL);
    deletes++;
    return MPI_SUCCESS;
}

static void messages(void)
{
    int value = rank, got = -1, count;
    MPI_Status status, statuses[3];
    memset(&status, 0xff, sizeof status);
    status.MPI_ERROR = 4711;
    MPI_Sendrecv(&value, 1, MPI_INT, (rank + 1) % size, 7, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(got == (rank + size - 1) % size && status.MPI_SOURCE == got && status.MPI_TAG == 7 && count == 1);
    CHECK(status.MPI_ERROR == 4711);
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Irecv(&got, 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&value, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&got, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, statuses);
    CHECK(statuses[0].MPI_SOURCE == MPI_PROC_NULL && statuses[0].MPI_TAG == MPI_ANY_TAG);
    CHECK(statuses[2].MPI_SOURCE == rank && statuses[2].MPI_TAG == 3 && requests[1] == MPI_REQUEST_NULL);
    /* Where nothing was started the status is the empty one, whose MPI_ERROR is MPI_SUCCESS. */
    int index = 0, flag = 0;
    status.MPI_ERROR = 4711;
    MPI_Waitany(3, requests, &index, &status);
    CHECK(index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_ERROR == MPI_SUCCESS);
    status.MPI_ERROR = 4711;
    MPI_Wait(&requests[0], &status);
    CHECK(status.MPI_TAG == MPI_ANY_TAG && status.MPI_ERROR == MPI_SUCCESS);
    status.MPI_ERROR = 4711;
    MPI_Request_get_status(requests[0], &flag, &status);
    CHECK(flag == 1 && status.MPI_TAG == MPI_ANY_TAG && status.MPI_ERROR == MPI_SUCCESS);
    int cancelled = -1;
    MPI_Irecv(&got, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled == 1);
    MPI_Status_set_elements_x(&status, MPI_CHAR, (MPI_Count)5 << 32);
    MPI_Status_set_cancelled(&status, 0);
    MPI_Count many;
    MPI_Get_elements_x(&status, MPI_CHAR, &many);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(many == (MPI_Count)5 << 32 && cancelled == 0);
    flag = -1;
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(flag == 0);
    MPI_Message message;
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(NULL, 0, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(message == MPI_MESSAGE_NULL);
}

static void operations(void)
{
    int value = rank, sum = -1;
    MPI_Op op;
    MPI_Op_create(sum_of, 1, &op);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(value == size - 1);
    struct {
        double value;
        int where;
    } pair = {-rank, rank}, best;
    MPI_Allreduce(&pair, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(best.where == size - 1);
}

static void errors(void)
{
    MPI_Errhandler errhandler, got;
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    CHECK(got == errhandler);
    int value = 0, code = MPI_Send(&value, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_RANK && handled == MPI_ERR_RANK);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, -2, 0, MPI_COMM_WORLD)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, -1, MPI_COMM_WORLD)) == MPI_ERR_TAG);
    /* Numbers of the standard's own binary interface, and such as nobody has. */
    CHECK(class_of(MPI_Send(&value, 1, (MPI_Datatype)0x209, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Send(&value, 1, (MPI_Datatype)-1, 0, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
    int ranks;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Comm_size((MPI_Comm)0x101, &ranks)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_size((MPI_Comm)MPI_INT, &ranks)) == MPI_ERR_COMM);
    MPI_Comm freed;
    MPI_Comm_dup(MPI_COMM_SELF, &freed);
    MPI_Comm stale = freed;
    MPI_Comm_free(&freed);
    CHECK(freed == MPI_COMM_NULL && class_of(MPI_Comm_size(stale, &ranks)) == MPI_ERR_COMM);
    int class, own, *last, flag;
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &own);
    MPI_Add_error_string(own, "our own");
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(own, text, &length);
    CHECK(class_of(own) == class && !strcmp(text, "our own") && class > MPI_ERR_LASTCODE);
    /* A function of MPICH that this library has only by name. */
    handled = 0;
    int agreed = 1;
    code = MPIX_Comm_agree(MPI_COMM_WORLD, &agreed);
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_OPERATION && strstr(text, "MPIX_Comm_agree"));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last == own);
    MPI_Errhandler_free(&errhandler);
    CHECK(errhandler == MPI_ERRHANDLER_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    CHECK(got == MPI_ERRORS_RETURN);
}

static void communicators(void)
{
    int key, flag, result, *bound, *any, *root;
    void *value;
    MPI_Comm_create_keyval(copy, delete, &key, &key);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, (void *)41);
    MPI_Comm other, none;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_get_attr(other, key, &value, &flag);
    CHECK(flag && value == (void *)42 && copies == 1);
    MPI_Comm_compare(other, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_IDENT);
    MPI_Comm_free(&other);
    CHECK(deletes == 1);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID && deletes == 2);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_get_attr(other, key, &value, &flag);
    CHECK(flag && value == &key);
    MPI_Comm_free(&other);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    CHECK(flag && *bound >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &any, &flag);
    CHECK(flag && *any == MPI_ANY_SOURCE);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &root, &flag);
    CHECK(class_of(MPI_Comm_get_attr(MPI_COMM_WORLD, 501, &root, &flag)) == MPI_ERR_KEYVAL);
    MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &none);
    CHECK(none == MPI_COMM_NULL);
    int dims[1] = {size}, periods[1] = {0}, kind, source, dest;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &other);
    MPI_Topo_test(other, &kind);
    MPI_Cart_shift(other, 0, 1, &source, &dest);
    CHECK(kind == MPI_CART && (rank > 0 || source == MPI_PROC_NULL) && (rank < size - 1 || dest == MPI_PROC_NULL));
    MPI_Comm_free(&other);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    CHECK(kind == MPI_UNDEFINED);
    int neighbour = (rank + 1) % size, back = (rank + size - 1) % size, in, out, weighted;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &back, MPI_UNWEIGHTED, 1, &neighbour, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &other);
    MPI_Dist_graph_neighbors_count(other, &in, &out, &weighted);
    CHECK(in == 1 && out == 1 && !weighted);
    MPI_Comm_free(&other);
    MPI_Group all, one;
    int first[2] = {0, MPI_PROC_NULL}, translated[2];
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, first, &one);
    MPI_Group_translate_ranks(all, 2, first, one, translated);
    CHECK(translated[0] == 0 && translated[1] == MPI_PROC_NULL);
    MPI_Group_compare(all, one, &result);
    CHECK(result == (size == 1 ? MPI_IDENT : MPI_UNEQUAL));
    MPI_Group_free(&one);
    MPI_Group_free(&all);
    CHECK(all == MPI_GROUP_NULL);
}

static void datatypes(void)
{
    MPI_Datatype vector, grid, types[4];
    int integers[16], counts[4], combiner;
    MPI_Aint addresses[4];
    MPI_Type_vector(2, 1, 3, MPI_DOUBLE, &vector);
    MPI_Type_get_envelope(vector, &counts[0], &counts[1], &counts[2], &combiner);
    MPI_Type_get_contents(vector, 16, 4, 4, integers, addresses, types);
    CHECK(combiner == MPI_COMBINER_VECTOR && integers[2] == 3 && types[0] == MPI_DOUBLE);
    int sizes[1] = {8}, distributions[1] = {MPI_DISTRIBUTE_BLOCK}, arguments[1] = {MPI_DISTRIBUTE_DFLT_DARG};
    int processes[1] = {2};
    MPI_Type_create_darray(2, 0, 1, sizes, distributions, arguments, processes, MPI_ORDER_C, MPI_INT, &grid);
    MPI_Type_get_contents(grid, 16, 4, 4, integers, addresses, types);
    CHECK(integers[4] == MPI_DISTRIBUTE_BLOCK && integers[5] == MPI_DISTRIBUTE_DFLT_DARG && integers[7] == MPI_ORDER_C);
    MPI_Type_free(&grid);
    MPI_Type_free(&vector);
    CHECK(vector == MPI_DATATYPE_NULL);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &grid);
    int bytes;
    MPI_Type_size(grid, &bytes);
    CHECK(bytes == 8);
    MPI_Datatype all[] = {MPI_CHAR, MPI_INT, MPI_LONG_LONG, MPI_DOUBLE_INT, MPI_2INT, MPI_INT64_T, MPI_C_BOOL, MPI_AINT,
                          MPI_REAL8, MPI_LONG_DOUBLE_INT};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        MPI_Datatype copy, inner[1];
        MPI_Type_dup(all[i], &copy);
        MPI_Type_get_contents(copy, 0, 0, 1, NULL, NULL, inner);
        CHECK(inner[0] == all[i]);
        MPI_Type_free(&copy);
    }
#ifdef MPIX_C_FLOAT16
    /* A type of MPICH's own with a namesake in Fortran, which is another one. */
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Datatype copy, inner[1];
    MPI_Type_dup(MPIX_C_FLOAT16, &copy);
    MPI_Type_get_contents(copy, 0, 0, 1, NULL, NULL, inner);
    MPI_Type_get_name(inner[0], name, &bytes);
    CHECK(inner[0] == MPIX_C_FLOAT16 && !strcmp(name, "MPIX_C_FLOAT16"));
    MPI_Type_free(&copy);
    unsigned short halves[2] = {0x3c00, 0}; /* 1.0 */
    MPI_Allreduce(&halves[0], &halves[1], 1, MPIX_C_FLOAT16, MPI_MAX, MPI_COMM_WORLD);
    CHECK(halves[1] == 0x3c00);
#endif
}

static void files_and_windows(const char *name)
{
    MPI_File file;
    MPI_Status status;
    int count, mode, value = rank, *base, *kind, *model, flag;
    CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) ==
          MPI_ERR_NO_SUCH_FILE);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_get_amode(file, &mode);
    CHECK(mode == (MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE));
    MPI_File_write_at(file, rank * sizeof value, &value, 1, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1);
    MPI_Offset at;
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_END) == MPI_SUCCESS && MPI_File_get_position(file, &at) == MPI_SUCCESS);
    MPI_Errhandler errhandler;
    MPI_File_create_errhandler(file_handler, &errhandler);
    MPI_File_set_errhandler(file, errhandler);
    CHECK(class_of(MPI_File_seek(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG && handled == MPI_ERR_ARG);
    MPI_Errhandler_free(&errhandler);
    MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
    MPI_Win win;
    MPI_Win_allocate(sizeof value, sizeof value, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &kind, &flag);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
    CHECK(*kind == MPI_WIN_FLAVOR_ALLOCATE && *model == MPI_WIN_UNIFIED);
    int *other_kind;
    MPI_Win other;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    MPI_Win_get_attr(other, MPI_WIN_CREATE_FLAVOR, &other_kind, &flag);
    CHECK(*other_kind == MPI_WIN_FLAVOR_DYNAMIC && *kind == MPI_WIN_FLAVOR_ALLOCATE);
    MPI_Win_free(&other);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK(*base == (rank + size - 1) % size);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    MPI_Win_unlock(rank, win);
    MPI_Win_create_errhandler(window_handler, &errhandler);
    MPI_Win_set_errhandler(win, errhandler);
    CHECK(class_of(MPI_Win_lock(4711, rank, 0, win)) == MPI_ERR_LOCKTYPE && handled == MPI_ERR_LOCKTYPE);
    MPI_Errhandler_free(&errhandler);
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
}

static int queried, freed;
static int query(void *state, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = 12;
    queried = *(int *)state;
    return MPI_SUCCESS;
}
static int release(void *state)
{
    freed = *(int *)state;
    return MPI_SUCCESS;
}
static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void others(void)
{
    int state = 5, count, major = 7, minor = 7;
    MPI_Request request;
    MPI_Status status;
    MPI_Grequest_start(query, release, cancel, &state, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(queried == 5 && freed == 5 && count == 3 && status.MPI_TAG == 12 && status.MPI_SOURCE == MPI_UNDEFINED);
    MPI_Info info;
    char value[16];
    int flag;
    MPI_Info_create(&info);
    MPI_Info_set(info, "colour", "blue");
    MPI_Info_get(info, "colour", 15, value, &flag);
    CHECK(flag && !strcmp(value, "blue"));
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL);
    CHECK(MPI_Comm_c2f(MPI_COMM_WORLD) == (int)MPI_COMM_WORLD);
#if MPI_VERSION >= 5
    MPI_Comm_toint(MPI_COMM_WORLD);
    MPI_Abi_get_version(&major, &minor);
    CHECK(major == -1 && minor == -1);
#endif
    char *buffer = malloc(1000);
    void *back = NULL;
    MPI_Buffer_attach(buffer, 1000);
    MPI_Buffer_detach(&back, &count);
    CHECK(back == buffer && count == 1000);
    free(buffer);
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(version, &count);
    CHECK(strstr(version, "Tutti"));
}

int main(int argc, char **argv)
{
    int provided, level, all;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Query_thread(&level);
    CHECK(provided == MPI_THREAD_MULTIPLE && level == provided);
    messages();
    operations();
    errors();
    communicators();
    datatypes();
    files_and_windows(argv[1]);
    others();
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        printf("interface: all right\n");
    MPI_Finalize();
    return all != 0;
}
