/* MPI 7.7: attributes are copied, deleted and counted as their callbacks say. */
#include "check.h"

static int copies, deletions, key, order[8];

static int copy_plus_one(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    copies++;
    CHECK(keyval == key && extra == &copies && comm != MPI_COMM_NULL);
    *(char **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int copy_never(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
    copies++;
    *flag = 0;
    return MPI_SUCCESS;
}

static int copy_fails(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

static int delete_counts(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int n;
    (void)keyval, (void)extra;
    /* A callback may call MPI. */
    MPI_Comm_size(comm, &n);
    order[deletions++ % 8] = (int)((char *)value - (char *)0);
    return MPI_SUCCESS;
}

static int delete_fails(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    return MPI_ERR_INTERN;
}

static void *number(int n)
{
    return (char *)0 + n;
}

static int value_of(MPI_Comm comm, int keyval)
{
    void *value = NULL;
    int flag = -1;
    CHECK(MPI_Comm_get_attr(comm, keyval, &value, &flag) == MPI_SUCCESS);
    return flag ? (int)((char *)value - (char *)0) : -1;
}

static void life(void)
{
    MPI_Comm comm, copy;
    int same, never, bad;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK(MPI_Comm_create_keyval(copy_plus_one, delete_counts, &key, &copies) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &same, NULL) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_keyval(copy_never, delete_counts, &never, NULL) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &bad, NULL) == MPI_SUCCESS);
    CHECK(value_of(comm, key) == -1);
    CHECK(MPI_Comm_set_attr(comm, key, number(10)) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(comm, same, number(20)) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(comm, never, number(30)) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(comm, bad, number(40)) == MPI_SUCCESS);
    CHECK(value_of(comm, key) == 10);
    /* A second value deletes the first. */
    CHECK(MPI_Comm_set_attr(comm, key, number(11)) == MPI_SUCCESS && deletions == 1 && order[0] == 10);
    CHECK(MPI_Comm_dup(comm, &copy) == MPI_SUCCESS && copies == 2);
    CHECK(value_of(copy, key) == 12 && value_of(copy, same) == 20);
    CHECK(value_of(copy, never) == -1 && value_of(copy, bad) == -1);
    /* A freed key lives on in the attributes that use it. */
    int freed = key;
    CHECK(MPI_Comm_free_keyval(&freed) == MPI_SUCCESS && freed == MPI_KEYVAL_INVALID);
    CHECK(MPI_Comm_delete_attr(copy, same) == MPI_SUCCESS && value_of(copy, same) == -1);
    CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS && deletions == 2 && order[1] == 12);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS && deletions == 4);
    CHECK(MPI_Comm_free_keyval(&same) == MPI_SUCCESS);
    CHECK(MPI_Comm_free_keyval(&never) == MPI_SUCCESS);
    CHECK(MPI_Comm_free_keyval(&bad) == MPI_SUCCESS);
}

static void failing_callbacks(void)
{
    MPI_Comm comm, copy = MPI_COMM_NULL;
    int failing, stubborn;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(copy_fails, MPI_COMM_NULL_DELETE_FN, &failing, NULL);
    MPI_Comm_set_attr(comm, failing, number(1));
    copy = comm;
    CHECK(class_of(MPI_Comm_dup(comm, &copy)) == MPI_ERR_OTHER && copy == MPI_COMM_NULL);
    MPI_Comm_delete_attr(comm, failing);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_fails, &stubborn, NULL);
    MPI_Comm_set_attr(comm, stubborn, number(2));
    CHECK(class_of(MPI_Comm_delete_attr(comm, stubborn)) == MPI_ERR_INTERN);
    CHECK(value_of(comm, stubborn) == 2);
    MPI_Comm_free_keyval(&failing);
    MPI_Comm_free_keyval(&stubborn);
}

static void predefined(void)
{
    int *value, flag;
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag) == MPI_SUCCESS && flag && *value >= 32767);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag) == MPI_SUCCESS);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag) == MPI_SUCCESS && (!flag || *value > 0));
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag) == MPI_SUCCESS && (!flag || *value >= 0));
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag) == MPI_SUCCESS);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag) == MPI_SUCCESS && flag);
    CHECK(*value >= MPI_ERR_LASTCODE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL) != MPI_SUCCESS);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &value, &flag) != MPI_SUCCESS);
}

/* The functions of MPI-1. */
static void older(void)
{
    int old, flag;
    void *value;
    CHECK(MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &old, NULL) == MPI_SUCCESS);
    CHECK(MPI_Attr_put(MPI_COMM_SELF, old, &flag) == MPI_SUCCESS);
    CHECK(MPI_Attr_get(MPI_COMM_SELF, old, &value, &flag) == MPI_SUCCESS && flag && value == &flag);
    CHECK(MPI_Attr_delete(MPI_COMM_SELF, old) == MPI_SUCCESS);
    CHECK(MPI_Keyval_free(&old) == MPI_SUCCESS && old == MPI_KEYVAL_INVALID);
}

static void datatypes(void)
{
    int for_types, flag;
    void *value;
    CHECK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &for_types, NULL) == MPI_SUCCESS);
    CHECK(MPI_Type_set_attr(MPI_INT, for_types, &flag) == MPI_SUCCESS);
    CHECK(MPI_Type_get_attr(MPI_INT, for_types, &value, &flag) == MPI_SUCCESS && flag && value == &flag);
    CHECK(MPI_Type_get_attr(MPI_DOUBLE, for_types, &value, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Type_delete_attr(MPI_INT, for_types) == MPI_SUCCESS);
    CHECK(MPI_Type_free_keyval(&for_types) == MPI_SUCCESS);
}

/* What hangs on MPI_COMM_SELF goes at Finalize, the youngest first, while MPI still works. */
static int at_finalize(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int n = -1, is_finalized = -1;
    static int expected = 3;
    (void)keyval, (void)extra;
    MPI_Comm_size(comm, &n);
    MPI_Finalized(&is_finalized);
    if (n != 1 || is_finalized != 0 || value != number(expected--)) {
        fprintf(stderr, "attribute %p was deleted in the wrong order or too late\n", value);
        _Exit(5);
    }
    if (expected == 0) {
        printf("all deleted\n");
        fflush(stdout);
    }
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int keys[3];
    MPI_Init(&argc, &argv);
    life();
    failing_callbacks();
    predefined();
    older();
    datatypes();
    for (int i = 0; i < 3; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &keys[i], NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], number(i + 1));
    }
    return finish("attributes");
}
