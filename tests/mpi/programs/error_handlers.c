/* MPI chapter 9: handlers are called, counted, inherited; classes, codes and texts are added and removed. */
#include "check.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void handler(MPI_Comm *comm, int *code, ...)
{
    int n;
    calls++;
    last_comm = *comm;
    last_code = *code;
    /* A handler may call MPI, and even fail in it. */
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (calls == 1)
        MPI_Comm_size(MPI_COMM_NULL, &n);
}

static void handler_of_files(MPI_File *file, int *code, ...)
{
    calls++;
    CHECK(*file == MPI_FILE_NULL);
    last_code = *code;
    /* The call returns what is here then. */
    if (class_of(*code) == MPI_ERR_NO_SUCH_FILE)
        *code = MPI_SUCCESS;
}

/* Handlers, codes and texts are there before MPI is. */
static MPI_Errhandler before_init(void)
{
    MPI_Errhandler made;
    char text[MPI_MAX_ERROR_STRING];
    int class, length;
    if (MPI_Comm_create_errhandler(handler, &made) != MPI_SUCCESS)
        exit(3);
    if (MPI_Error_class(MPI_ERR_TAG, &class) != MPI_SUCCESS || class != MPI_ERR_TAG)
        exit(4);
    if (MPI_Error_string(MPI_ERR_TAG, text, &length) != MPI_SUCCESS || length != (int)strlen(text) || length == 0)
        exit(5);
    return made;
}

static void handlers(MPI_Errhandler made)
{
    MPI_Comm comm, copy;
    MPI_Errhandler found;
    int n;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK(MPI_Comm_get_errhandler(comm, &found) == MPI_SUCCESS && found == MPI_ERRORS_ARE_FATAL);
    CHECK(MPI_Errhandler_free(&found) == MPI_SUCCESS && found == MPI_ERRHANDLER_NULL);
    CHECK(MPI_Comm_set_errhandler(comm, made) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&made) == MPI_SUCCESS && made == MPI_ERRHANDLER_NULL);

    calls = 0;
    n = MPI_Send(&n, 1, MPI_INT, 12345, 0, comm);
    CHECK(!is_tutti() || n == MPI_ERR_RANK);
    CHECK(calls == 1 && last_comm == comm && class_of(last_code) == MPI_ERR_RANK);
    n = MPI_Send(&n, 1, MPI_INT, 0, -7, comm);
    CHECK(!is_tutti() || n == MPI_ERR_TAG);
    CHECK(calls == 2 && class_of(last_code) == MPI_ERR_TAG);
    /* Children inherit; the handler outlives the communicator that it was set on. */
    MPI_Comm_split(comm, 0, 0, &copy);
    MPI_Comm_free(&comm);
    n = MPI_Recv(&n, -1, MPI_INT, 0, 0, copy, MPI_STATUS_IGNORE);
    CHECK(!is_tutti() || n == MPI_ERR_COUNT);
    CHECK(calls == 3 && last_comm == copy);
    CHECK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER) == MPI_SUCCESS);
    CHECK(calls == 4 && last_code == MPI_ERR_OTHER);
    CHECK(MPI_Comm_get_errhandler(copy, &found) == MPI_SUCCESS && found != MPI_ERRORS_RETURN);
    CHECK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER) == MPI_SUCCESS && calls == 4);
    CHECK(MPI_Comm_set_errhandler(copy, found) == MPI_SUCCESS);
    MPI_Errhandler_free(&found);
    CHECK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER) == MPI_SUCCESS && calls == 5);
    MPI_Comm_free(&copy);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL) != MPI_SUCCESS);
}

static void files(void)
{
    MPI_Errhandler made, found;
    CHECK(MPI_File_create_errhandler(handler_of_files, &made) == MPI_SUCCESS);
    CHECK(MPI_File_get_errhandler(MPI_FILE_NULL, &found) == MPI_SUCCESS && found == MPI_ERRORS_RETURN);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, made) == MPI_SUCCESS);
    calls = 0;
    MPI_File missing;
    CHECK(MPI_File_open(MPI_COMM_SELF, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &missing) == MPI_SUCCESS);
    CHECK(class_of(last_code) == MPI_ERR_NO_SUCH_FILE);
    CHECK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_FILE) == MPI_SUCCESS);
    CHECK(calls == 2 && last_code == MPI_ERR_FILE);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, found) == MPI_SUCCESS);
    MPI_Errhandler_free(&made);
    MPI_Errhandler_free(&found);
}

static void codes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, code, other, length, flag, *last;
    CHECK(MPI_Add_error_class(&class) == MPI_SUCCESS && class > MPI_ERR_LASTCODE);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag) == MPI_SUCCESS && flag && *last == class);
    CHECK(MPI_Add_error_code(class, &code) == MPI_SUCCESS && code != class);
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && length == 0);
    CHECK(MPI_Add_error_string(code, "the kettle is empty") == MPI_SUCCESS);
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && strcmp(text, "the kettle is empty") == 0);
    CHECK(length == 19);
    CHECK(MPI_Error_class(code, &other) == MPI_SUCCESS && other == class);
    CHECK(MPI_Remove_error_class(class) != MPI_SUCCESS);
    CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_class(MPI_ERR_TAG) != MPI_SUCCESS);
    CHECK(!is_tutti() || MPI_Add_error_string(MPI_ERR_TAG, "mine") == MPI_ERR_ARG);
    for (class = MPI_SUCCESS; class <= MPI_ERR_ERRHANDLER; class++)
        CHECK(MPI_Error_string(class, text, &length) == MPI_SUCCESS && length > 0);
}

int main(int argc, char **argv)
{
    MPI_Errhandler made;
    if (is_tutti()) {
        made = before_init();
        MPI_Init(&argc, &argv);
    } else {
        MPI_Init(&argc, &argv);
        made = before_init();
    }
    handlers(made);
    files();
    codes();
    return finish("error_handlers");
}
