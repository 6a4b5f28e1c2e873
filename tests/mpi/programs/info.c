/* MPI chapter 10: info objects, before Init, in between, and after Finalize. */
#include "check.h"

static int trouble;

/* CHECK asks for the rank, which is not there outside of Init and Finalize. */
#define MUST(holds)                                                                                                    \
    do {                                                                                                               \
        if (!(holds)) {                                                                                                \
            fprintf(stderr, "line %d: expected %s\n", __LINE__, #holds);                                               \
            trouble++;                                                                                                 \
        }                                                                                                              \
    } while (0)

static void use(void)
{
    MPI_Info info, copy;
    char value[32], key[MPI_MAX_INFO_KEY];
    int flag, n, length;
    MUST(MPI_Info_create(&info) == MPI_SUCCESS && info != MPI_INFO_NULL);
    MUST(MPI_Info_get_nkeys(info, &n) == MPI_SUCCESS && n == 0);
    MUST(MPI_Info_set(info, "colour", "blue") == MPI_SUCCESS);
    MUST(MPI_Info_set(info, "size", "large") == MPI_SUCCESS);
    MUST(MPI_Info_set(info, "colour", "dark green") == MPI_SUCCESS);
    MUST(MPI_Info_get_nkeys(info, &n) == MPI_SUCCESS && n == 2);
    MUST(MPI_Info_get_nthkey(info, 0, key) == MPI_SUCCESS && strcmp(key, "colour") == 0);
    MUST(MPI_Info_get_nthkey(info, 1, key) == MPI_SUCCESS && strcmp(key, "size") == 0);

    length = sizeof value;
    MUST(MPI_Info_get_string(info, "colour", &length, value, &flag) == MPI_SUCCESS && flag);
    MUST(strcmp(value, "dark green") == 0 && length == 11);
    length = 5;
    MUST(MPI_Info_get_string(info, "colour", &length, value, &flag) == MPI_SUCCESS && flag);
    MUST(strcmp(value, "dark") == 0 && length == 11);
    length = 0;
    MUST(MPI_Info_get_string(info, "colour", &length, NULL, &flag) == MPI_SUCCESS && flag && length == 11);
    length = sizeof value;
    MUST(MPI_Info_get_string(info, "weight", &length, value, &flag) == MPI_SUCCESS && !flag);
    MUST(MPI_Info_get_valuelen(info, "size", &length, &flag) == MPI_SUCCESS && flag && length == 5);
    MUST(MPI_Info_get(info, "size", 5, value, &flag) == MPI_SUCCESS && flag && strcmp(value, "large") == 0);
    if (is_tutti())
        MUST(MPI_Info_get(info, "size", 3, value, &flag) == MPI_SUCCESS && flag && strcmp(value, "lar") == 0);
    MUST(MPI_Info_get(info, "nothing", 3, value, &flag) == MPI_SUCCESS && !flag);

    MUST(MPI_Info_dup(info, &copy) == MPI_SUCCESS);
    MUST(MPI_Info_delete(info, "colour") == MPI_SUCCESS);
    MUST(MPI_Info_get_nkeys(info, &n) == MPI_SUCCESS && n == 1);
    MUST(MPI_Info_get_nkeys(copy, &n) == MPI_SUCCESS && n == 2);
    MUST(MPI_Info_free(&copy) == MPI_SUCCESS && copy == MPI_INFO_NULL);
    MUST(MPI_Info_free(&info) == MPI_SUCCESS && info == MPI_INFO_NULL);
}

static void wrong_arguments(void)
{
    MPI_Info info;
    char key[MPI_MAX_INFO_KEY + 10], *value = malloc(MPI_MAX_INFO_VAL + 10), text[8];
    int n, flag;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = 0;
    memset(value, 'v', MPI_MAX_INFO_VAL + 10);
    value[MPI_MAX_INFO_VAL + 9] = 0;
    CHECK(class_of(MPI_Info_set(info, key, "v")) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_set(info, "", "v")) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_set(info, "k", value)) == MPI_ERR_INFO_VALUE);
    CHECK(class_of(MPI_Info_delete(info, "k")) == MPI_ERR_INFO_NOKEY);
    CHECK(class_of(MPI_Info_get_nthkey(info, 0, text)) == MPI_ERR_ARG);
    if (is_tutti())
        CHECK(class_of(MPI_Info_get_nkeys(MPI_INFO_NULL, &n)) == MPI_ERR_INFO);
    if (is_tutti())
        CHECK(MPI_Info_get(MPI_INFO_ENV, "arch", 7, text, &flag) == MPI_SUCCESS && flag && strcmp(text, "x86_64") == 0);
    MPI_Info_free(&info);
    free(value);
}

/* How the program was started is known before Init, and is the same after it. Nobody requested a thread level before the start. */
static void environment(int argc, char **argv)
{
    static const char *const keys[] = {"command", "argv", "maxprocs", "soft", "host", "arch", "wdir"};
    MPI_Info env;
    char text[MPI_MAX_INFO_VAL];
    int length, flag = 0;
    CHECK(MPI_Info_create_env(argc, argv, &env) == MPI_SUCCESS);
    for (int i = 0; i < 7; i++) {
        length = sizeof text;
        CHECK(MPI_Info_get_string(env, keys[i], &length, text, &flag) == MPI_SUCCESS && flag && text[0]);
        if (i == 2 && getenv("TUTTI_SIZE"))
            CHECK(strcmp(text, getenv("TUTTI_SIZE")) == 0);
    }
    length = sizeof text;
    CHECK(MPI_Info_get_string(env, "thread_level", &length, text, &flag) == MPI_SUCCESS && !flag);
    MPI_Info_free(&env);
}

int main(int argc, char **argv)
{
    MPI_Info env;
    int n;
    if (argc > 1)
        environment(argc, argv);
    use();
    MPI_Init(&argc, &argv);
    use();
    if (argc > 1)
        environment(argc, argv);
    wrong_arguments();
    CHECK(MPI_Info_create_env(argc, argv, &env) == MPI_SUCCESS);
    CHECK(MPI_Info_get_nkeys(env, &n) == MPI_SUCCESS && n > 0);
    MPI_Info_free(&env);
    failures += trouble;
    trouble = 0;
    n = finish("info");
    use();
    return n + trouble;
}
