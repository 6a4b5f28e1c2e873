/* Two launches that connect to each other: one runs this as "accept", the other as "connect", with the same
   second argument: the file in which the port's name stands, or a name that is published if it has no '/'.
   If it begins with '@' it is the name of a Unix socket, over which they join.
   A third argument says what else happens:

   -            all there is over such a communicator
   die          the accepting launch ends without a word
   leave        the accepting launch finalizes without MPI_Comm_disconnect
   twice        both connect once more, and both communicators are used
   say          a line says when the port can be found
   together     messages go to and fro until there is a file FILE.part; then both disconnect, and stay
   refused      the connection is refused: MPI_ERR_PORT
   forged       the same, by a port's name that the program has changed */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "rank %d, line %d: expected %s\n", rank, __LINE__, #condition);                  \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                                    \
        }                                                                                                    \
    } while (0)

static void nap(void)
{
    struct timespec time = {0, 5000000};
    nanosleep(&time, NULL);
}

/* The name of the port is there when its file is, under its last name. */
static void say_port(const char *file, const char *port)
{
    char before[4096];
    snprintf(before, sizeof before, "%s.new", file);
    FILE *out = fopen(before, "w");
    EXPECT(out != NULL && fputs(port, out) >= 0 && fclose(out) == 0 && rename(before, file) == 0);
}

static void read_port(const char *file, char *port)
{
    FILE *in;
    while ((in = fopen(file, "r")) == NULL)
        nap();
    EXPECT(fgets(port, MPI_MAX_PORT_NAME, in) != NULL && fclose(in) == 0);
}

static int pattern(int from, int to, int at)
{
    return from * 1000003 + to * 131 + at;
}

static void messages(MPI_Comm inter, int is_server)
{
    static const int counts[] = {0, 1, 4, 500, 1800, 5000, 20000, 300000, 2000000};
    int remote;
    MPI_Comm_remote_size(inter, &remote);
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int count = counts[i];
        MPI_Request requests[64];
        int *in[32], *out[32], n = 0;
        for (int other = 0; other < remote; other++) {
            in[other] = malloc(sizeof(int) * (size_t)(count + 1));
            out[other] = malloc(sizeof(int) * (size_t)(count + 1));
            for (int at = 0; at < count; at++)
                out[other][at] = pattern(rank, other, at);
            MPI_Irecv(in[other], count, MPI_INT, other, (int)i, inter, &requests[n++]);
            MPI_Isend(out[other], count, MPI_INT, other, (int)i, inter, &requests[n++]);
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int other = 0; other < remote; other++) {
            for (int at = 0; at < count; at++)
                EXPECT(in[other][at] == pattern(other, rank, at));
            free(in[other]);
            free(out[other]);
        }
    }

    /* Many small ones before anybody receives, from any rank, in order. */
    enum { MANY = 3000 };
    for (int i = 0; i < MANY; i++)
        MPI_Send(&i, 1, MPI_INT, 0, 77, inter);
    if (rank == 0) {
        int next[32] = {0};
        for (int i = 0; i < MANY * remote; i++) {
            MPI_Status status;
            int value, found;
            MPI_Probe(MPI_ANY_SOURCE, 77, inter, &status);
            MPI_Get_count(&status, MPI_INT, &found);
            EXPECT(found == 1);
            MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, 77, inter, &status);
            EXPECT(value == next[status.MPI_SOURCE]++);
        }
    }

    /* A type with holes, synchronous, and a message that is taken out of matching first. */
    if (rank == 0) {
        enum { BLOCKS = 40000 };
        MPI_Datatype holes;
        MPI_Status status;
        int *data = malloc(sizeof(int) * 3 * BLOCKS);
        MPI_Type_vector(BLOCKS, 1, 3, MPI_INT, &holes);
        MPI_Type_commit(&holes);
        for (int i = 0; i < 3 * BLOCKS; i++)
            data[i] = is_server ? i : -1;
        if (is_server) {
            MPI_Ssend(data, 1, holes, 0, 5, inter);
            MPI_Ssend(data, 0, MPI_INT, 0, 6, inter);
        } else {
            MPI_Message message;
            MPI_Mprobe(0, 5, inter, &message, &status);
            MPI_Mrecv(data, 1, holes, &message, &status);
            for (int i = 0; i < BLOCKS; i++)
                EXPECT(data[3 * i] == 3 * i && data[3 * i + 1] == -1);
            MPI_Recv(data, 0, MPI_INT, 0, 6, inter, &status);
        }
        free(data);
        MPI_Type_free(&holes);

        /* A message that nobody receives is taken back. */
        int *large = calloc(1 << 20, sizeof(int)), flag = 0, word = 1;
        if (is_server) {
            MPI_Request request;
            MPI_Isend(large, 1 << 20, MPI_INT, 0, 8, inter, &request);
            MPI_Cancel(&request);
            MPI_Send(&word, 1, MPI_INT, 0, 9, inter);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            EXPECT(flag);
        } else {
            MPI_Recv(&word, 1, MPI_INT, 0, 9, inter, &status);
        }
        free(large);
    }
}

static void collectives(MPI_Comm inter, int is_server)
{
    int remote, value, sum;
    MPI_Comm_remote_size(inter, &remote);
    MPI_Barrier(inter);
    value = is_server ? 42 : 0;
    MPI_Bcast(&value, 1, MPI_INT, is_server ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, inter);
    EXPECT(value == 42);
    value = rank + (is_server ? 100 : 1);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
    EXPECT(sum == remote * (is_server ? 1 : 100) + remote * (remote - 1) / 2);
    int all[32];
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, inter);
    for (int i = 0; i < remote; i++)
        EXPECT(all[i] == i);
}

static void merged(MPI_Comm inter, int is_server)
{
    MPI_Comm both, copy, part, later;
    int remote, me, all;
    MPI_Comm_remote_size(inter, &remote);
    /* Equal on both sides: they agree who is first. */
    MPI_Intercomm_merge(inter, 0, &both);
    MPI_Comm_size(both, &all);
    EXPECT(all == size + remote);
    MPI_Comm_free(&both);
    MPI_Intercomm_merge(inter, !is_server, &both);
    MPI_Comm_rank(both, &me);
    EXPECT(me == rank + (is_server ? 0 : remote));
    MPI_Comm_dup(both, &copy);
    int *large = malloc(sizeof(int) * 100000);
    for (int i = 0; i < 100000; i++)
        large[i] = me == all - 1 ? i : 0;
    MPI_Bcast(large, 100000, MPI_INT, all - 1, copy);
    for (int i = 0; i < 100000; i++)
        EXPECT(large[i] == i);
    int sum, scan;
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, both);
    EXPECT(sum == all * (all - 1) / 2);
    MPI_Scan(&me, &scan, 1, MPI_INT, MPI_SUM, copy);
    EXPECT(scan == me * (me + 1) / 2);
    /* Parts: one of both launches, then those of the own launch alone. */
    MPI_Comm_split(both, me % 2, -me, &part);
    int there, back;
    MPI_Comm_rank(part, &there);
    MPI_Comm_size(part, &back);
    EXPECT(me == 2 * (back - 1 - there) + me % 2);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_MAX, part);
    EXPECT(sum == (all - 1 - me % 2) / 2 * 2 + me % 2);
    MPI_Comm_free(&part);
    MPI_Comm_split_type(both, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    MPI_Comm_size(part, &back);
    EXPECT(back <= size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, part);
    MPI_Comm_free(&part);
    MPI_Request request;
    MPI_Comm_idup(both, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % all, 3, &there, 1, MPI_INT, (me + all - 1) % all, 3, later,
                 MPI_STATUS_IGNORE);
    EXPECT(there == (me + all - 1) % all);
    /* Processes of two launches share no memory. */
    MPI_Comm_set_errhandler(later, MPI_ERRORS_RETURN);
    MPI_Win win;
    void *memory;
    int class;
    MPI_Error_class(MPI_Win_allocate_shared(4, 4, MPI_INFO_NULL, later, &memory, &win), &class);
    EXPECT(class == MPI_ERR_RMA_SHARED);
    free(large);
    MPI_Comm_free(&later);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&both);
}

static void use(MPI_Comm inter, int is_server)
{
    messages(inter, is_server);
    collectives(inter, is_server);
    merged(inter, is_server);
}

/* Both work between the messages, so that neither is idle. */
static void together(MPI_Comm inter, int is_server, const char *file)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", file);
    for (int goes_on = 1; goes_on;) {
        int mine = access(part, F_OK) != 0, theirs;
        for (volatile int i = 0; i < 300000; i++)
            ;
        MPI_Sendrecv(&mine, 1, MPI_INT, 0, 3, &theirs, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
        goes_on = is_server ? mine : theirs;
    }
    MPI_Comm_disconnect(&inter);
    for (;;)
        pause();
}

/* Both launches have one process, and a socket between them. */
static void join(const char *name, int is_server)
{
    MPI_Comm inter;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    if (is_server) {
        EXPECT(bind(end, (struct sockaddr *)&address, sizeof address) == 0 && listen(end, 1) == 0);
        int listener = end;
        end = accept(listener, NULL, NULL);
        close(listener);
    } else {
        while (connect(end, (struct sockaddr *)&address, sizeof address) != 0)
            nap();
    }
    EXPECT(end >= 0);
    MPI_Comm_join(end, &inter);
    use(inter, is_server);
    /* The socket is quiet, and the program's. */
    char byte = 'x';
    EXPECT(write(end, &byte, 1) == 1 && read(end, &byte, 1) == 1 && byte == 'x');
    close(end);
    MPI_Comm_disconnect(&inter);
}

/* The other launch has ended. What only members need that live goes on: a receive that names one waits for its
   message. What any member, or all, may have a part in fails. */
static void survive(MPI_Comm both)
{
    enum { TAG = 4 };
    int all, class, word = 0, first;
    MPI_Request named = MPI_REQUEST_NULL;
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    MPI_Comm_size(both, &all);
    first = all - size;
    if (rank > 0)
        EXPECT(MPI_Irecv(&word, 1, MPI_INT, first, TAG, both, &named) == MPI_SUCCESS);
    MPI_Error_class(MPI_Barrier(both), &class);
    EXPECT(class == MPI_ERR_PROC_ABORTED);
    MPI_Error_class(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, TAG + 1, both, MPI_STATUS_IGNORE), &class);
    EXPECT(class == MPI_ERR_PROC_ABORTED);
    /* Only now, so that a receive that gave up before would not get it. */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int to = 1; rank == 0 && to < size; to++)
        EXPECT(MPI_Send(&to, 1, MPI_INT, first + to, TAG, both) == MPI_SUCCESS);
    EXPECT(MPI_Wait(&named, MPI_STATUS_IGNORE) == MPI_SUCCESS && word == rank);
    EXPECT(MPI_Comm_free(&both) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int is_server = strcmp(argv[1], "accept") == 0, is_file = strchr(argv[2], '/') != NULL;
    const char *what = argc > 3 ? argv[3] : "";
    if (argv[2][0] == '@') {
        join(argv[2] + 1, is_server);
        MPI_Finalize();
        puts(is_server ? "accepted" : "connected");
        return 0;
    }
    if (rank == 0 && is_server) {
        MPI_Open_port(MPI_INFO_NULL, port);
        if (is_file)
            say_port(argv[2], port);
        else
            MPI_Publish_name(argv[2], MPI_INFO_NULL, port);
    } else if (rank == 0 && is_file) {
        read_port(argv[2], port);
    } else if (rank == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        while (MPI_Lookup_name(argv[2], MPI_INFO_NULL, port) != MPI_SUCCESS)
            nap();
    }
    if (rank == 0 && strcmp(what, "say") == 0) {
        puts("found");
        fflush(stdout);
    }
    if (strcmp(what, "refused") == 0 || strcmp(what, "forged") == 0) {
        int class;
        /* Another digit of the address, in which the key is that the opener wants to hear. */
        if (rank == 0 && what[0] == 'f')
            port[strlen(port) - 30] = port[strlen(port) - 30] == '0' ? '1' : '0';
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Error_class(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), &class);
        EXPECT(class == MPI_ERR_PORT);
        MPI_Finalize();
        if (rank == 0)
            puts("refused");
        return 0;
    }
    if (is_server)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    if (strcmp(what, "together") == 0)
        together(inter, is_server, argv[2]);
    use(inter, is_server);
    if (strcmp(what, "twice") == 0) {
        MPI_Comm second;
        if (is_server)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &second);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &second);
        collectives(inter, is_server);
        use(second, is_server);
        MPI_Comm_disconnect(&second);
    }
    MPI_Comm both = MPI_COMM_NULL;
    const int dies = strcmp(what, "die") == 0;
    int met;
    if (dies)
        MPI_Intercomm_merge(inter, !is_server, &both);
    /* A process that is killed right after it may take its last messages with it. */
    if (dies && !is_server)
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Barrier(inter), &met);
    EXPECT(met == MPI_SUCCESS || (dies && met == MPI_ERR_PROC_ABORTED));
    if (dies) {
        int word, class;
        if (is_server) {
            /* Whoever waits for this process must hear that it ends. */
            raise(SIGKILL);
        }
        MPI_Error_class(MPI_Recv(&word, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE), &class);
        EXPECT(class == MPI_ERR_PROC_ABORTED);
        MPI_Error_class(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, inter, MPI_STATUS_IGNORE), &class);
        EXPECT(class == MPI_ERR_PROC_ABORTED);
        MPI_Error_class(MPI_Send(&word, 1, MPI_INT, 0, 1, inter), &class);
        EXPECT(class == MPI_ERR_PROC_ABORTED);
        MPI_Error_class(MPI_Barrier(inter), &class);
        EXPECT(class == MPI_ERR_PROC_ABORTED);
        survive(both);
    }
    if (strcmp(what, "leave") != 0)
        MPI_Comm_disconnect(&inter);
    if (is_server && rank == 0) {
        if (!is_file)
            MPI_Unpublish_name(argv[2], MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
    MPI_Finalize();
    if (rank == 0)
        puts(is_server ? "accepted" : "connected");
    return 0;
}
