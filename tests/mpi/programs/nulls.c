/* The frame of generated programs (tests/mpi/nulls.rs, wrong_arguments.rs): calls every function with each of its addresses
 * null, or each of its other arguments wrong, in turn. Where an error is expected (E) its class is printed.
 *
 *   nulls all      between Init and Finalize
 *   nulls before   those that must be refused, before Init */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 64 };

static MPI_Comm comm = MPI_COMM_SELF, cart = MPI_COMM_SELF, graph = MPI_COMM_SELF, dist = MPI_COMM_SELF;
static MPI_Group group = MPI_GROUP_EMPTY;
static MPI_Info info = MPI_INFO_NULL;
static MPI_Session session = MPI_SESSION_NULL;
static int keyval = MPI_KEYVAL_INVALID;

/* Places of each type; made anew for every call. */
static char of_char[65536], of_void[65536];
static int of_int[ROOM], zeros[ROOM], ranges[ROOM][3];
static MPI_Count of_count[ROOM];
static void *const none = of_void;
static MPI_Aint of_aint[ROOM];
static MPI_Status of_status[ROOM];
static MPI_Request of_request[ROOM];
static MPI_Datatype of_datatype[ROOM];
static MPI_Comm of_comm[ROOM];
static MPI_Win of_win[ROOM];
static MPI_File of_file[ROOM];
static MPI_Offset of_offset[ROOM];
static MPI_Group of_group[ROOM];
static MPI_Info of_info[ROOM];
static MPI_Op of_op[ROOM];
static MPI_Message of_message[ROOM];
static MPI_Errhandler of_errhandler[ROOM];
static MPI_Session of_session[ROOM];
static void *of_t_enum[ROOM], *of_t_cvar_handle[ROOM], *of_t_pvar_handle[ROOM], *of_t_pvar_session[ROOM];
static MPI_T_event_registration of_t_event_registration[ROOM];
static MPI_T_source_order of_t_source_order[ROOM];

static const char *volatile name = "start";
static char expected;

static void fill(void)
{
    memset(of_char, 0, sizeof of_char);
    memset(of_void, 0, sizeof of_void);
    for (int i = 0; i < ROOM; i++) {
        of_int[i] = of_count[i] = of_aint[i] = 1;
        of_request[i] = MPI_REQUEST_NULL;
        of_datatype[i] = MPI_INT;
        of_comm[i] = MPI_COMM_NULL;
        of_win[i] = MPI_WIN_NULL;
        of_file[i] = MPI_FILE_NULL;
        of_offset[i] = 1;
        of_group[i] = MPI_GROUP_NULL;
        of_info[i] = MPI_INFO_NULL;
        of_op[i] = MPI_OP_NULL;
        of_message[i] = MPI_MESSAGE_NO_PROC;
        of_errhandler[i] = MPI_ERRHANDLER_NULL;
        of_session[i] = MPI_SESSION_NULL;
    }
}

/* A function of the user that is never called. */
static void function(void)
{
    _exit(9);
}

static void crash(int number)
{
    const char *text = name;
    (void)!write(2, text, strlen(text));
    (void)!write(2, " crashes\n", 9);
    signal(number, SIG_DFL);
    raise(number);
}

static int call(int number)
{
    switch (number) {
/* CALLS */
    }
    return MPI_SUCCESS;
}

static void prepare(void)
{
    int one = 1, self = 0, provided;
    MPI_Init(NULL, NULL);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Cart_create(MPI_COMM_SELF, 1, &one, &one, 0, &cart);
    MPI_Graph_create(MPI_COMM_SELF, 1, &one, &self, 0, &graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, &self, &one, 1, &self, &one, MPI_INFO_NULL, 0, &dist);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Info_create(&info);
    MPI_Info_set(info, "text", "text");
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
}

int main(int argc, char **argv)
{
    int before = argc > 1 && strcmp(argv[1], "before") == 0, wrong = 0;
    struct sigaction action = {.sa_handler = crash};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
    if (!before)
        prepare();
    for (int i = 0; i < CASES; i++) {
        static const char refused[] = CODES;
        if (before && refused[i] != 'R')
            continue;
        fill();
        int code = call(i), class = -1;
        int is_tool = strncmp(name, "MPI_T_", 6) == 0;
        MPI_Error_class(code, &class);
        if (expected == 'E')
            printf("class %d %s\n", class, name);
        if (expected == 'R' ? is_tool ? code != MPI_T_ERR_INVALID : class != MPI_ERR_ARG
                            : expected == 'B' && code == MPI_SUCCESS) {
            fprintf(stderr, "%s: code %d, class %d\n", name, code, class);
            wrong++;
        }
    }
    printf("%d calls\n", CASES);
    fflush(stdout);
    name = "the end";
    if (before)
        MPI_Init(&argc, &argv);
    else
        MPI_Session_finalize(&session);
    MPI_Finalize();
    return wrong != 0;
}
