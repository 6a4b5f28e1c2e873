/* Calls the stand-in of MPICH's library as MPICH's own Fortran and C++ libraries do, beyond the standard: attributes that Fortran has set
 * and C reads, and the other way; functions of either that copy and delete them; the error handler that C++ throws by. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>

/* Kinds of values: a pointer of C and C++, an address of Fortran, an INTEGER. */
enum { POINTER = 0, ADDRESS = 1, INTEGER = 3 };
#define THROW ((MPI_Errhandler)0x54000002)

int MPII_Comm_get_attr(MPI_Comm, int, void *, int *, int);
int MPII_Comm_set_attr(MPI_Comm, int, void *, int);
int MPII_Type_set_attr(MPI_Datatype, int, void *, int);
int MPII_Win_set_attr(MPI_Win, int, void *, int);
void MPII_Keyval_set_proxy(int, void *, void *);

/* MPICH's Fortran library has these, too: the loader takes one of each for all. */
int *MPIR_C_MPI_UNWEIGHTED, *MPIR_C_MPI_WEIGHTS_EMPTY;

static int wrong;

static void expect(int is_right, const char *what)
{
    if (!is_right) {
        printf("%s is wrong\n", what);
        wrong = 1;
    }
}

static int copied_kind = -1, deleted_kind = -1;
static void *copied_value, *deleted_value;

/* A library's own function between ours and the user's. */
static int copy_proxy(void *user, int object, int key, void *extra, int kind, void *value, void **place, int *flag)
{
    (void)user, (void)object, (void)key, (void)extra;
    copied_kind = kind;
    copied_value = value;
    *place = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_proxy(void *user, int object, int key, int kind, void *value, void *extra)
{
    (void)user, (void)object, (void)key, (void)extra;
    deleted_kind = kind;
    deleted_value = value;
    return MPI_SUCCESS;
}

static int copy_in_c(MPI_Comm comm, int key, void *extra, void *value, void *place, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)value, (void)place, (void)flag;
    return MPI_ERR_OTHER;
}

static int delete_in_c(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    deleted_kind = -2;
    deleted_value = value;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    MPI_Aint *place = NULL, number = 0;
    int key, flag, *integer = NULL, x;
    MPI_Comm copy;
    void *value = NULL;

    /* Set by Fortran: C is given the place of the number. */
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPII_Comm_set_attr(MPI_COMM_WORLD, key, (void *)5555, ADDRESS);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &place, &flag);
    expect(flag && (void *)place != (void *)5555 && *place == 5555, "C's view of an address of Fortran");
    MPII_Comm_get_attr(MPI_COMM_WORLD, key, &number, &flag, ADDRESS);
    expect(flag && number == 5555, "Fortran's view of its address");
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    place = NULL;
    MPI_Comm_get_attr(copy, key, &place, &flag);
    expect(flag && place && *place == 5555, "C's view of a copy");
    MPI_Comm_free(&copy);
    MPII_Comm_set_attr(MPI_COMM_WORLD, key, (void *)-7, INTEGER);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &integer, &flag);
    expect(flag && *integer == -7, "C's view of an INTEGER");
    /* Set by C: Fortran is given the address. */
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &x);
    MPII_Comm_get_attr(MPI_COMM_WORLD, key, &number, &flag, ADDRESS);
    expect(flag && number == (MPI_Aint)&x, "Fortran's view of C's value");
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);

    /* Functions of another language are given the value as it was set, and its kind. */
    MPI_Comm_create_keyval(copy_in_c, delete_in_c, &key, NULL);
    MPII_Keyval_set_proxy(key, (void *)copy_proxy, (void *)delete_proxy);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &x);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    expect(copied_kind == POINTER && copied_value == &x, "a copied pointer");
    MPI_Comm_get_attr(copy, key, &value, &flag);
    expect(flag && value == (char *)&x + 1, "the copy of a pointer");
    MPI_Comm_free(&copy);
    expect(deleted_kind == POINTER && deleted_value == (char *)&x + 1, "a deleted pointer");
    MPII_Comm_set_attr(MPI_COMM_WORLD, key, (void *)41, ADDRESS);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    expect(copied_kind == ADDRESS && copied_value == (void *)41, "a copied address");
    place = NULL;
    MPI_Comm_get_attr(copy, key, &place, &flag);
    expect(flag && place && (void *)place != (void *)42 && *place == 42, "C's view of the copy of an address");
    MPI_Comm_free(&copy);
    expect(deleted_kind == ADDRESS && deleted_value == (void *)42, "a deleted address");
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);

    /* A key without functions leaves those of the key before it alone. */
    MPI_Comm_create_keyval(copy_in_c, delete_in_c, &key, NULL);
    int bare;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &bare, NULL);
    MPII_Keyval_set_proxy(bare, (void *)copy_proxy, (void *)delete_proxy);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &x);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    expect(deleted_kind == -2 && deleted_value == &x, "a function of C");
}

static int copy_type_in_c(MPI_Datatype type, int key, void *extra, void *value, void *place, int *flag)
{
    (void)type, (void)key, (void)extra, (void)value, (void)place, (void)flag;
    return MPI_ERR_OTHER;
}

static int delete_type_in_c(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

/* A value of Fortran, and one of C at the same key, are given to another language's functions as they were set. */
static void functions_of_types(void)
{
    int key, flag, x;
    MPI_Datatype type, copy;
    MPI_Aint *place = NULL;

    MPI_Type_create_keyval(copy_type_in_c, delete_type_in_c, &key, NULL);
    MPII_Keyval_set_proxy(key, (void *)copy_proxy, (void *)delete_proxy);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPII_Type_set_attr(type, key, (void *)61, ADDRESS);
    MPI_Type_dup(type, &copy);
    expect(copied_kind == ADDRESS && copied_value == (void *)61, "a copied address of a type");
    MPI_Type_get_attr(copy, key, &place, &flag);
    expect(flag && place && (void *)place != (void *)62 && *place == 62, "C's view of the copy of a type's address");
    MPI_Type_free(&copy);
    expect(deleted_kind == ADDRESS && deleted_value == (void *)62, "a deleted address of a type");
    MPI_Type_set_attr(type, key, &x);
    expect(deleted_kind == ADDRESS && deleted_value == (void *)61, "a replaced address of a type");
    MPI_Type_free(&type);
    expect(deleted_kind == POINTER && deleted_value == &x, "a deleted pointer of a type");
    MPI_Type_free_keyval(&key);
}

static int delete_win_in_c(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

static void functions_of_windows(void)
{
    int key, memory, x;
    MPI_Win win;

    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_win_in_c, &key, NULL);
    MPII_Keyval_set_proxy(key, (void *)copy_proxy, (void *)delete_proxy);
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_attr(win, key, &x);
    MPII_Win_set_attr(win, key, (void *)71, ADDRESS);
    expect(deleted_kind == POINTER && deleted_value == &x, "a replaced pointer of a window");
    MPI_Win_free(&win);
    expect(deleted_kind == ADDRESS && deleted_value == (void *)71, "a deleted address of a window");
    MPI_Win_free_keyval(&key);
}

static void other_objects(void)
{
    MPI_Aint *place = NULL;
    int key, flag, memory;
    MPI_Datatype type;
    MPI_Win win;

    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPII_Type_set_attr(type, key, (void *)77, ADDRESS);
    MPI_Type_get_attr(type, key, &place, &flag);
    expect(flag && (void *)place != (void *)77 && *place == 77, "C's view of an attribute of a type");
    MPI_Type_free(&type);
    functions_of_types();
    functions_of_windows();
    MPI_Win_create_keyval(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL);
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPII_Win_set_attr(win, key, (void *)78, ADDRESS);
    MPI_Win_get_attr(win, key, &place, &flag);
    expect(flag && (void *)place != (void *)78 && *place == 78, "C's view of an attribute of a window");
    MPI_Win_free(&win);
}

static jmp_buf before;
static int key_of_handler, number_of_handler, leaves;

/* C, whatever language has made the call that failed. */
static void leave(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    MPI_Comm_set_attr(MPI_COMM_WORLD, key_of_handler, &number_of_handler);
    longjmp(before, 1);
}

static int leave_deletion(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    if (leaves)
        longjmp(before, 1);
    return MPI_SUCCESS;
}

/* A function of the user that does not return: what C calls next is taken as C's. */
static void functions_that_leave(void)
{
    MPI_Errhandler own;
    void *value = NULL;
    int x, flag, key, other, far;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key_of_handler, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_deletion, &key, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &far, NULL);
    MPI_Comm_create_errhandler(leave, &own);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    if (!setjmp(before)) {
        MPII_Comm_set_attr(MPI_COMM_WORLD, 12345, (void *)91, ADDRESS);
        expect(0, "a handler that leaves");
    }
    MPI_Comm_set_attr(MPI_COMM_WORLD, other, &x);
    MPI_Comm_set_attr(MPI_COMM_WORLD, far, &x);
    /* From here on the language is C's. */
    MPII_Comm_get_attr(MPI_COMM_WORLD, far, &value, &flag, POINTER);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key_of_handler, &value, &flag);
    expect(flag && value == &number_of_handler, "an attribute that a handler has set");
    MPI_Comm_get_attr(MPI_COMM_WORLD, other, &value, &flag);
    expect(flag && value == &x, "an attribute behind a handler that has left");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&own);

    leaves = 1;
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &x);
    if (!setjmp(before)) {
        MPII_Comm_set_attr(MPI_COMM_SELF, key, (void *)92, ADDRESS);
        expect(0, "a delete function that leaves");
    }
    MPI_Comm_set_attr(MPI_COMM_SELF, other, &x);
    MPI_Comm_get_attr(MPI_COMM_SELF, other, &value, &flag);
    expect(flag && value == &x, "an attribute behind a delete function that has left");
    if (!setjmp(before))
        MPI_Comm_delete_attr(MPI_COMM_SELF, key);
    MPI_Comm_get_attr(MPI_COMM_SELF, key, &value, &flag);
    expect(flag && value == &x, "an attribute whose deletion has left");
    leaves = 0;
    expect(MPI_Comm_delete_attr(MPI_COMM_SELF, key) == MPI_SUCCESS, "a deletion after one that has left");
}

static int calls;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    calls++;
}

static void throwing(void)
{
    MPI_Errhandler found, own;
    MPI_Win win;
    int x = 0, code, class = 0, mine;

    expect(MPI_Comm_set_errhandler(MPI_COMM_SELF, THROW) == MPI_SUCCESS, "MPI_Comm_set_errhandler");
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &found);
    expect(found == THROW, "MPI_Comm_get_errhandler");
    expect(MPI_Errhandler_free(&found) == MPI_SUCCESS && found == MPI_ERRHANDLER_NULL, "MPI_Errhandler_free");
    code = MPI_Send(&x, 1, MPI_INT, 99, 0, MPI_COMM_SELF);
    MPI_Error_class(code, &class);
    expect(class == MPI_ERR_RANK, "an error");
    expect(MPI_Comm_call_errhandler(MPI_COMM_SELF, code) == code, "MPI_Comm_call_errhandler");
    MPI_Add_error_class(&mine);
    expect(MPI_Comm_call_errhandler(MPI_COMM_SELF, mine) == mine, "MPI_Comm_call_errhandler of a class of the user");
    /* Others have their handlers called. */
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, own);
    expect(MPI_Comm_call_errhandler(MPI_COMM_SELF, code) == MPI_SUCCESS && calls == 1, "a handler of the user");
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &found);
    expect(found == own, "MPI_Comm_get_errhandler of a handler of the user");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &found);
    expect(MPI_Errhandler_free(&found) == MPI_SUCCESS && found == MPI_ERRHANDLER_NULL, "MPI_Errhandler_free");
    expect(MPI_Comm_call_errhandler(MPI_COMM_SELF, code) == MPI_SUCCESS && calls == 1, "MPI_ERRORS_RETURN");
    MPI_Win_create(&x, sizeof x, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    expect(MPI_Win_set_errhandler(win, THROW) == MPI_SUCCESS, "MPI_Win_set_errhandler");
    MPI_Win_get_errhandler(win, &found);
    expect(found == THROW && MPI_Win_call_errhandler(win, code) == code, "MPI_Win_call_errhandler");
    MPI_Win_free(&win);
    expect(MPI_File_set_errhandler(MPI_FILE_NULL, THROW) == MPI_SUCCESS, "MPI_File_set_errhandler");
    MPI_File_get_errhandler(MPI_FILE_NULL, &found);
    expect(found == THROW && MPI_File_call_errhandler(MPI_FILE_NULL, code) == code, "MPI_File_call_errhandler");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    expect(MPIR_C_MPI_UNWEIGHTED == MPI_UNWEIGHTED && MPIR_C_MPI_WEIGHTS_EMPTY == MPI_WEIGHTS_EMPTY, "a variable");
    attributes();
    other_objects();
    throwing();
    functions_that_leave();
    if (!wrong)
        puts("languages: all right");
    MPI_Finalize();
    return wrong;
}
