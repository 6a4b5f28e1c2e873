/* Processes start processes. The program is its own child: "child" and what it is to do as arguments.
 *
 *   spawn rounds          messages, collective operations, merge, a child that spawns too; several times
 *   spawn refused         what is wrong gives its class at all ranks, and nothing is started
 *   spawn hints DIR       wdir, path, soft, host; several programs at once
 *   spawn idle            a child that never calls MPI_Init
 *   spawn killed          a child that is killed
 *   spawn universe        prints MPI_UNIVERSE_SIZE
 *   spawn hang            two children, and all stay until they are ended
 *   spawn last            two children that stay, and the parent is killed
 *   spawn again N         N times two children, which are told a number, and then leave
 *   spawn soft N TIMES STAY
 *                         STAY children that stay to the end; beside them, one after the other, as many of N as there is
 *                         room for
 *   spawn emptied N STATUS FILE
 *                         all but rank 0 end at once; then, when there is a file if one is named, it starts three
 *                         children N times, which leave, and ends with a status
 *   spawn orphans         two children, the first of which kills its parent before they call MPI_Init
 *   spawn cores N         prints the cores of the parent and of N children, each bound to one
 *   spawn missing FILE    two children, one on each of two nodes, of which the second has no such program
 *   spawn stuck HOW       two children, which wait for their parents, which wait for them: each for a "rank",
 *                         or the parents for "any"
 *   spawn patient         two children, for which all wait while one of them does something else for 3 s
 *   spawn greedy          asks the starter for far too much, by itself; then it starts a child as others do
 *   spawn places N HOST   prints the virtual nodes of N children that were wished for a host, or for none
 */
#define _GNU_SOURCE
#include "../../mpi/programs/require.h"
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, size;
static char *self;

/* Both groups run this: pairs, collective operations of each kind, then one communicator. */
static void talk(MPI_Comm inter, int is_child)
{
    int others, me, mine, sum, one = 1, is_inter;
    MPI_Comm merged;
    CHECK(MPI_Comm_test_inter(inter, &is_inter));
    CHECK(MPI_Comm_remote_size(inter, &others));
    CHECK(MPI_Comm_rank(inter, &me));
    CHECK(MPI_Comm_size(inter, &mine));
    WANT(is_inter, "the parent communicator is none between groups");
    if (me == 0) {
        int *large = malloc(sizeof(int) << 18), got = -1;
        MPI_Status status;
        for (int i = 0; i < 1 << 18; i++)
            large[i] = i * 3 + is_child;
        CHECK(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 7, &got, 1, MPI_INT, MPI_ANY_SOURCE, 7, inter, &status));
        WANT(got == others && status.MPI_SOURCE == 0, "got %d from %d", got, status.MPI_SOURCE);
        if (is_child) {
            CHECK(MPI_Send(large, 1 << 18, MPI_INT, 0, 8, inter));
        } else {
            memset(large, 0, sizeof(int) << 18);
            CHECK(MPI_Recv(large, 1 << 18, MPI_INT, 0, 8, inter, MPI_STATUS_IGNORE));
            for (int i = 0; i < 1 << 18; i++)
                WANT(large[i] == i * 3 + 1, "element %d is %d", i, large[i]);
        }
        free(large);
    }
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    WANT(sum == others, "sum %d of the other side, expected %d", sum, others);
    CHECK(MPI_Intercomm_merge(inter, is_child, &merged));
    CHECK(MPI_Comm_rank(merged, &me));
    CHECK(MPI_Comm_size(merged, &sum));
    WANT(sum == mine + others && me == (is_child ? others : 0) + rank, "rank %d of %d", me, sum);
    for (int i = 0; i < 50; i++) {
        CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged));
        WANT(sum == mine + others, "sum %d", sum);
        CHECK(MPI_Barrier(merged));
    }
    CHECK(MPI_Comm_free(&merged));
}

static void world_of_my_own(void)
{
    int sum, one = 1, *value, flag;
    MPI_Comm copy;
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy));
    WANT(sum == size, "sum %d of %d", sum, size);
    CHECK(MPI_Comm_free(&copy));
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    WANT(sum == size, "sum %d of %d", sum, size);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));
    WANT(flag && *value >= 0, "no MPI_APPNUM");
}

static void start(int number, char *what, MPI_Comm comm, MPI_Comm *inter)
{
    char *argv[] = {"child", what, NULL};
    int codes[16];
    memset(codes, -1, sizeof codes);
    CHECK(MPI_Comm_spawn(self, argv, number, MPI_INFO_NULL, 0, comm, inter, codes));
    for (int i = 0; i < number; i++)
        WANT(codes[i] == MPI_SUCCESS, "code %d is %d", i, codes[i]);
}

static void rounds(void)
{
    MPI_Comm inter, alone, all, half;
    /* The whole world. */
    start(2, "talk", MPI_COMM_WORLD, &inter);
    talk(inter, 0);
    CHECK(MPI_Comm_disconnect(&inter));
    WANT(inter == MPI_COMM_NULL, "a handle is left");
    /* The last rank alone; the others then meet the child by the world, and did not know it. */
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, 0, &half));
    if (rank == size - 1) {
        start(1, "merge", MPI_COMM_SELF, &alone);
        CHECK(MPI_Intercomm_merge(alone, 0, &all));
    } else {
        all = MPI_COMM_NULL;
    }
    if (size > 1) {
        int one = 1, sum, mine;
        CHECK(MPI_Comm_size(rank == size - 1 ? all : half, &mine));
        CHECK(MPI_Intercomm_create(rank == size - 1 ? all : half, 0, MPI_COMM_WORLD, rank == size - 1 ? 0 : size - 1,
                                   5, &inter));
        CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
        WANT(sum == size + 1 - mine, "sum %d", sum);
        /* From the child to a rank that has not started it, from any source. */
        if (rank == 0) {
            int got = 0;
            CHECK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 6, inter, MPI_STATUS_IGNORE));
            WANT(got == 42, "got %d", got);
        }
        CHECK(MPI_Comm_disconnect(&inter));
    } else {
        CHECK(MPI_Barrier(all));
    }
    if (rank == size - 1) {
        CHECK(MPI_Comm_free(&all));
        CHECK(MPI_Comm_disconnect(&alone));
    }
    CHECK(MPI_Comm_free(&half));
    /* A child with a child. */
    start(1, "again", MPI_COMM_WORLD, &inter);
    talk(inter, 0);
    CHECK(MPI_Comm_disconnect(&inter));
}

static void child(char *what)
{
    MPI_Comm parent, all, inter;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    CHECK(MPI_Comm_get_parent(&parent));
    WANT(parent != MPI_COMM_NULL, "a child has no parent");
    CHECK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    WANT(strcmp(name, "MPI_COMM_WORLD") == 0, "the world is called %s", name);
    CHECK(MPI_Comm_get_name(parent, name, &length));
    WANT(strcmp(name, "MPI_COMM_PARENT") == 0, "the parent is called %s", name);
    world_of_my_own();
    if (strcmp(what, "merge") == 0) {
        int parents, one = 1, sum, others, here;
        CHECK(MPI_Intercomm_merge(parent, 1, &all));
        CHECK(MPI_Comm_size(all, &parents));
        int world = atoi(getenv("PARENTS"));
        if (world > 1) {
            CHECK(MPI_Intercomm_create(all, 0, MPI_COMM_NULL, 0, 5, &inter));
            CHECK(MPI_Comm_remote_size(inter, &others));
            CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
            WANT(sum == others, "sum %d", sum);
            here = 42;
            CHECK(MPI_Send(&here, 1, MPI_INT, 0, 6, inter));
            CHECK(MPI_Comm_disconnect(&inter));
        } else {
            CHECK(MPI_Barrier(all));
        }
        CHECK(MPI_Comm_free(&all));
    } else {
        talk(parent, 1);
    }
    if (strcmp(what, "again") == 0) {
        start(2, "talk", MPI_COMM_WORLD, &inter);
        talk(inter, 0);
        CHECK(MPI_Comm_disconnect(&inter));
    }
    CHECK(MPI_Comm_disconnect(&parent));
    CHECK(MPI_Comm_get_parent(&parent));
    WANT(parent == MPI_COMM_NULL, "a parent after the disconnect");
}

static void refused(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    char text[MPI_MAX_ERROR_STRING], *commands[] = {self, "./no-such-program"};
    int codes[8], maxprocs[] = {2, 1}, length, code, class;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL}, info;
    for (int i = 0; i < 8; i++)
        codes[i] = -1;
    code = MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
    MPI_Error_class(code, &class);
    WANT(class == MPI_ERR_SPAWN && codes[0] == MPI_ERR_SPAWN && codes[1] == MPI_ERR_SPAWN && codes[2] == -1,
         "class %d, codes %d %d %d", class, codes[0], codes[1], codes[2]);
    CHECK(MPI_Error_string(code, text, &length));
    WANT(!strchr(text, '\n') && (rank != 0 || strstr(text, "no-such-program")), "text: %s", text);
    FAILS(MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, maxprocs, infos, 0, MPI_COMM_WORLD, &inter, codes),
          MPI_ERR_SPAWN);
    WANT(codes[0] == MPI_ERR_OTHER && codes[1] == MPI_ERR_OTHER && codes[2] == MPI_ERR_SPAWN && codes[3] == -1,
         "codes %d %d %d %d", codes[0], codes[1], codes[2], codes[3]);
    /* A file that no kernel takes: those that began with it are taken back. */
    if (rank == 0) {
        FILE *file = fopen("no-program", "w");
        fputs("\177ELF but nothing else\n", file);
        fclose(file);
        WANT(chmod("no-program", 0755) == 0, "chmod");
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    commands[1] = "./no-program";
    FAILS(MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, maxprocs, infos, 0, MPI_COMM_WORLD, &inter, codes),
          MPI_ERR_SPAWN);
    WANT(codes[0] == MPI_ERR_OTHER && codes[2] == MPI_ERR_SPAWN, "codes %d %d %d", codes[0], codes[1], codes[2]);
    FAILS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1000, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE),
          MPI_ERR_SPAWN);
    FAILS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE),
          MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, size, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE),
          MPI_ERR_ROOT);
    FAILS(MPI_Comm_spawn(NULL, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE),
          MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn_multiple(0, commands, MPI_ARGVS_NULL, maxprocs, infos, 0, MPI_COMM_SELF, &inter, codes),
          MPI_ERR_ARG);
    const char *wrong[][2] = {{"host", "no-such-host"}, {"wdir", "/no/such/directory"}, {"soft", "many"}};
    for (int i = 0; i < 3; i++) {
        CHECK(MPI_Info_create(&info));
        CHECK(MPI_Info_set(info, wrong[i][0], wrong[i][1]));
        FAILS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE),
              i < 2 ? MPI_ERR_SPAWN : MPI_ERR_INFO_VALUE);
        CHECK(MPI_Info_free(&info));
    }
    WANT(inter == MPI_COMM_NULL, "a failed call has written a handle");
    /* And then it works. */
    start(2, "talk", MPI_COMM_WORLD, &inter);
    talk(inter, 0);
    CHECK(MPI_Comm_disconnect(&inter));
}

static void hints(char *directory)
{
    MPI_Comm inter;
    MPI_Info infos[2];
    char *name = strrchr(self, '/') + 1, path[4096];
    char *arguments[] = {"child", "where", directory, NULL}, **argv[] = {arguments, arguments};
    char *commands[] = {name, name};
    int maxprocs[] = {1, 4}, codes[5], others, sum, one = 1;
    snprintf(path, sizeof path, "/nowhere:%.*s", (int)(name - self - 1), self);
    for (int i = 0; i < 2; i++) {
        CHECK(MPI_Info_create(&infos[i]));
        CHECK(MPI_Info_set(infos[i], "path", path));
        CHECK(MPI_Info_set(infos[i], "wdir", directory));
        CHECK(MPI_Info_set(infos[i], "host", "localhost"));
    }
    CHECK(MPI_Info_set(infos[1], "soft", "2:3,100"));
    CHECK(MPI_Comm_spawn_multiple(2, commands, argv, maxprocs, infos, 0, MPI_COMM_WORLD, &inter, codes));
    CHECK(MPI_Comm_remote_size(inter, &others));
    WANT(others == 4, "%d processes, expected 1 + 3", others);
    for (int i = 0; i < 5; i++)
        WANT(codes[i] == (i < 4 ? MPI_SUCCESS : MPI_ERR_SPAWN), "code %d is %d", i, codes[i]);
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    /* Of their numbers of programs: one 0, three 1. */
    WANT(sum == 3, "sum %d", sum);
    CHECK(MPI_Comm_disconnect(&inter));
    for (int i = 0; i < 2; i++)
        CHECK(MPI_Info_free(&infos[i]));
}

/* Children of each round, one after the other, in the room of two or three. They leave messages behind that
 * nobody receives, and that the next ones must not get. */
static void again(int times)
{
    for (int i = 0; i < times; i++) {
        MPI_Comm inter, all;
        int sum = 0, got, large[4096];
        CHECK(MPI_Comm_spawn(self, (char *[]){"child", "number", NULL}, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                             MPI_ERRCODES_IGNORE));
        CHECK(MPI_Intercomm_merge(inter, 0, &all));
        CHECK(MPI_Bcast(&i, 1, MPI_INT, 0, all));
        for (int k = 0; k < 4096; k++)
            large[k] = i + k;
        if (rank == 0)
            for (int to = 0; to < 2; to++)
                CHECK(MPI_Send(large, 4096, MPI_INT, to, i, inter));
        CHECK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, all));
        WANT(sum == i * (size + 2), "round %d: sum %d", i, sum);
        if (rank == 0) {
            for (int from = 0; from < 2; from++) {
                CHECK(MPI_Recv(&got, 1, MPI_INT, from, MPI_ANY_TAG, inter, MPI_STATUS_IGNORE));
                WANT(got == 3 * i + from, "round %d: got %d from %d", i, got, from);
            }
        }
        CHECK(MPI_Comm_free(&all));
        CHECK(MPI_Comm_disconnect(&inter));
    }
}

static void soft(int most, int times, int stay)
{
    MPI_Comm inter, others = MPI_COMM_NULL;
    MPI_Info info;
    char list[32];
    if (rank > 0) {
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    }
    if (stay)
        CHECK(MPI_Comm_spawn(self, (char *[]){"child", "pool", NULL}, stay, MPI_INFO_NULL, 0, MPI_COMM_SELF, &others,
                             MPI_ERRCODES_IGNORE));
    snprintf(list, sizeof list, "1:%d", most);
    CHECK(MPI_Info_create(&info));
    CHECK(MPI_Info_set(info, "soft", list));
    for (int i = 0; i < times; i++) {
        int got;
        CHECK(MPI_Comm_spawn(self, (char *[]){"child", "pool", NULL}, most, info, 0, MPI_COMM_SELF, &inter,
                             MPI_ERRCODES_IGNORE));
        CHECK(MPI_Comm_remote_size(inter, &got));
        CHECK(MPI_Bcast(&i, 1, MPI_INT, MPI_ROOT, inter));
        CHECK(MPI_Comm_disconnect(&inter));
        printf("%d workers\n", got);
    }
    CHECK(MPI_Info_free(&info));
    if (stay) {
        CHECK(MPI_Bcast(&times, 1, MPI_INT, MPI_ROOT, others));
        CHECK(MPI_Comm_disconnect(&others));
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
}

static void pool(void)
{
    MPI_Comm parent;
    int word;
    CHECK(MPI_Comm_get_parent(&parent));
    CHECK(MPI_Bcast(&word, 1, MPI_INT, 0, parent));
    CHECK(MPI_Comm_disconnect(&parent));
}

static void number(void)
{
    MPI_Comm parent, all, copy;
    int i, sum, large[4096], others;
    CHECK(MPI_Comm_get_parent(&parent));
    CHECK(MPI_Comm_remote_size(parent, &others));
    CHECK(MPI_Intercomm_merge(parent, 1, &all));
    CHECK(MPI_Bcast(&i, 1, MPI_INT, 0, all));
    CHECK(MPI_Recv(large, 4096, MPI_INT, 0, MPI_ANY_TAG, parent, MPI_STATUS_IGNORE));
    for (int k = 0; k < 4096; k++)
        WANT(large[k] == i + k, "round %d: element %d is %d", i, k, large[k]);
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(MPI_Barrier(copy));
    CHECK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, all));
    sum = 3 * i + rank;
    CHECK(MPI_Send(&sum, 1, MPI_INT, 0, i, parent));
    /* Nobody receives this one. */
    sum = -1;
    CHECK(MPI_Send(&sum, 1, MPI_INT, 0, 0, all));
    CHECK(MPI_Comm_free(&all));
    CHECK(MPI_Comm_disconnect(&parent));
}

/* All ranks of the other nodes have ended when the children begin; the last ones end after their parent. */
static void emptied(int times, char *file)
{
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank > 0)
        return;
    while (file && access(file, F_OK) != 0)
        poll(NULL, 0, 10);
    for (int i = 0; i < times; i++) {
        MPI_Comm inter;
        int word = i, sum;
        start(3, "emptied", MPI_COMM_SELF, &inter);
        CHECK(MPI_Bcast(&word, 1, MPI_INT, MPI_ROOT, inter));
        CHECK(MPI_Reduce(NULL, &sum, 1, MPI_INT, MPI_SUM, MPI_ROOT, inter));
        WANT(sum == 3 * i + 3, "round %d: sum %d", i, sum);
        CHECK(MPI_Comm_disconnect(&inter));
    }
    printf("spawn is right\n");
}

static void emptied_child(void)
{
    MPI_Comm parent;
    int word, mine, sum;
    CHECK(MPI_Comm_get_parent(&parent));
    CHECK(MPI_Bcast(&word, 1, MPI_INT, 0, parent));
    mine = word + rank;
    CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    WANT(sum == 3 * word + 3, "sum %d", sum);
    CHECK(MPI_Reduce(&mine, NULL, 1, MPI_INT, MPI_SUM, 0, parent));
    CHECK(MPI_Comm_disconnect(&parent));
}

static int node_of_mine(void)
{
    char *node = getenv("TUTTI_VIRTUAL_NODE");
    return node ? atoi(node) : -1;
}

static void places(int number, char *host)
{
    MPI_Comm inter;
    MPI_Info info;
    char *argv[] = {"child", "place", NULL}, text[MPI_MAX_ERROR_STRING];
    int *nodes = malloc(sizeof(int) * (number + 1)), length, code, node = node_of_mine();
    CHECK(MPI_Info_create(&info));
    if (*host)
        CHECK(MPI_Info_set(info, "host", host));
    code = MPI_Comm_spawn(self, argv, number, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    CHECK(MPI_Error_string(code, text, &length));
    if (code != MPI_SUCCESS && rank == 0)
        printf("%s\n", text);
    if (code == MPI_SUCCESS) {
        CHECK(MPI_Gather(&node, 1, MPI_INT, nodes, 1, MPI_INT, rank ? MPI_PROC_NULL : MPI_ROOT, inter));
        CHECK(MPI_Comm_disconnect(&inter));
        if (rank == 0) {
            printf("nodes");
            for (int i = 0; i < number; i++)
                printf(" %d", nodes[i]);
            printf("\n");
        }
    }
    free(nodes);
    CHECK(MPI_Info_free(&info));
}

static void place(void)
{
    MPI_Comm parent;
    int node = node_of_mine();
    CHECK(MPI_Comm_get_parent(&parent));
    CHECK(MPI_Gather(&node, 1, MPI_INT, NULL, 0, MPI_INT, 0, parent));
    CHECK(MPI_Comm_disconnect(&parent));
}

static int core_of_mine(void)
{
    cpu_set_t cores;
    int found = -1;
    CPU_ZERO(&cores);
    WANT(sched_getaffinity(0, sizeof cores, &cores) == 0, "no cores");
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&cores) == 1; core++)
        if (CPU_ISSET(core, &cores))
            found = core;
    return found;
}

static void cores(int number)
{
    MPI_Comm inter;
    int *found = malloc(sizeof(int) * (size_t)(number + 1));
    start(number, "core", MPI_COMM_SELF, &inter);
    CHECK(MPI_Gather(NULL, 0, MPI_INT, found, 1, MPI_INT, MPI_ROOT, inter));
    CHECK(MPI_Comm_disconnect(&inter));
    printf("cores %d", core_of_mine());
    for (int i = 0; i < number; i++)
        printf(" %d", found[i]);
    printf("\n");
    free(found);
}

static void core(void)
{
    MPI_Comm parent;
    int mine = core_of_mine();
    CHECK(MPI_Comm_get_parent(&parent));
    CHECK(MPI_Gather(&mine, 1, MPI_INT, NULL, 0, MPI_INT, 0, parent));
    CHECK(MPI_Comm_disconnect(&parent));
}

static void missing(char *file)
{
    MPI_Comm inter;
    char *argv[] = {"child", "talk", NULL}, text[MPI_MAX_ERROR_STRING];
    int codes[2] = {-1, -1}, length, class;
    int code = MPI_Comm_spawn(file, argv, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
    MPI_Error_class(code, &class);
    CHECK(MPI_Error_string(code, text, &length));
    WANT(class == MPI_ERR_SPAWN && codes[0] == MPI_ERR_OTHER && codes[1] == MPI_ERR_SPAWN,
         "class %d, codes %d %d: %s", class, codes[0], codes[1], text);
    if (rank == 0)
        printf("%s\n", text);
}

/* What the library and the starter say to each other is no secret: words, and texts with their length. */
static void greedy(void)
{
    enum { WORDS = 30000, TIMES = 3000 };
    MPI_Comm inter;
    uint32_t *words = calloc(WORDS, sizeof *words);
    int starter = -1, type;
    socklen_t length = sizeof type;
    for (int socket = 3; socket < 1024 && starter < 0; socket++)
        if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET)
            starter = socket;
    WANT(starter >= 0, "no connection to the starter");
    for (int i = 0; i < TIMES; i++) {
        size_t bytes = WORDS * sizeof *words;
        /* Protocol, kind, number, context, programs; then ranks, arguments, and three texts each. */
        uint32_t head[] = {0x54550004, 16, 1000000 + (uint32_t)i, 60, 1, UINT32_MAX, 0, 0, 0, 0};
        memset(words, i % 4 == 3 ? 0xff : 0, bytes);
        memcpy(words, head, sizeof head);
        if (i % 4 == 0) {
            bytes = sizeof head;
        } else if (i % 4 == 1) {
            /* As many programs as there is room for. */
            words[4] = (WORDS - 5) / 5;
            for (uint32_t program = 0; program < words[4]; program++)
                words[5 + 5 * program] = UINT32_MAX;
            bytes = (5 + 5 * words[4]) * sizeof *words;
        } else if (i % 4 == 2) {
            /* A long text. */
            words[5] = 1;
            words[7] = (WORDS - 10) * sizeof *words;
        }
        /* The starter may take its time, and answers are read by nobody. */
        while (send(starter, words, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            struct pollfd room = {starter, POLLOUT, 0};
            poll(&room, 1, 100);
        }
    }
    free(words);
    /* While so many of its own wait it is refused. */
    char *argv[] = {"child", "talk", NULL};
    while (MPI_Comm_spawn(self, argv, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE) !=
           MPI_SUCCESS)
        poll(NULL, 0, 10);
    talk(inter, 0);
    CHECK(MPI_Comm_disconnect(&inter));
}

/* Nobody sends anything. */
static void stuck(int source, MPI_Comm inter)
{
    int word;
    CHECK(MPI_Recv(&word, 1, MPI_INT, source, 9, inter, MPI_STATUS_IGNORE));
}

/* All but the first child wait, for it or for one that waits for it. */
static void patient(int is_child, MPI_Comm inter)
{
    int word = 1;
    if (is_child && rank == 0) {
        poll(NULL, 0, 3000);
        CHECK(MPI_Send(&word, 1, MPI_INT, 1, 9, MPI_COMM_WORLD));
    } else if (is_child) {
        CHECK(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(MPI_Send(&word, 1, MPI_INT, 0, 9, inter));
        CHECK(MPI_Send(&word, 1, MPI_INT, 1, 9, inter));
    } else {
        CHECK(MPI_Recv(&word, 1, MPI_INT, rank ? MPI_ANY_SOURCE : 1, 9, inter, MPI_STATUS_IGNORE));
    }
    CHECK(MPI_Comm_disconnect(&inter));
}

static void where(char *directory)
{
    char here[4096], there[4096];
    MPI_Comm parent;
    int *number, flag, sum;
    WANT(getcwd(here, sizeof here) && realpath(directory, there) && strcmp(here, there) == 0, "%s is not %s", here,
         directory);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
    WANT(flag && *number == (rank > 0), "program %d", flag ? *number : -1);
    WANT(size == 4, "%d processes", size);
    CHECK(MPI_Comm_get_parent(&parent));
    CHECK(MPI_Allreduce(number, &sum, 1, MPI_INT, MPI_SUM, parent));
    CHECK(MPI_Comm_disconnect(&parent));
}

int main(int argc, char **argv)
{
    char *what = argc > 1 ? argv[1] : "rounds";
    int is_child = argc > 2 && strcmp(what, "child") == 0;
    static char file[4096];
    if (is_child && strcmp(argv[2], "idle") == 0)
        return 0;
    if (is_child && strcmp(argv[2], "killed") == 0)
        raise(SIGKILL);
    if (is_child && strncmp(argv[2], "orphans", 7) == 0)
        kill(atoi(argv[2] + 7), SIGKILL);
    self = realpath("/proc/self/exe", file);
    CHECK(MPI_Init(&argc, &argv));
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (is_child) {
        if (strcmp(argv[2], "where") == 0)
            where(argv[3]);
        else if (strcmp(argv[2], "place") == 0)
            place();
        else if (strcmp(argv[2], "core") == 0)
            core();
        else if (strcmp(argv[2], "emptied") == 0)
            emptied_child();
        else if (strcmp(argv[2], "stuck") == 0) {
            MPI_Comm above;
            CHECK(MPI_Comm_get_parent(&above));
            stuck(rank, above);
        } else if (strcmp(argv[2], "patient") == 0) {
            MPI_Comm above;
            CHECK(MPI_Comm_get_parent(&above));
            patient(1, above);
        } else if (strcmp(argv[2], "number") == 0)
            number();
        else if (strcmp(argv[2], "pool") == 0)
            pool();
        else if (strcmp(argv[2], "hang") == 0)
            for (;;)
                pause();
        else
            child(argv[2]);
        CHECK(MPI_Finalize());
        return 0;
    }
    MPI_Comm parent, inter;
    CHECK(MPI_Comm_get_parent(&parent));
    WANT(parent == MPI_COMM_NULL, "a process of mpiexec has a parent");
    if (strcmp(what, "rounds") == 0) {
        rounds();
    } else if (strcmp(what, "refused") == 0) {
        refused();
    } else if (strcmp(what, "hints") == 0) {
        hints(argv[2]);
    } else if (strcmp(what, "again") == 0) {
        again(atoi(argv[2]));
    } else if (strcmp(what, "soft") == 0) {
        soft(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    } else if (strcmp(what, "hang") == 0) {
        start(2, what, MPI_COMM_WORLD, &inter);
        for (;;)
            pause();
    } else if (strcmp(what, "last") == 0) {
        start(2, "hang", MPI_COMM_WORLD, &inter);
        raise(SIGKILL);
    } else if (strcmp(what, "orphans") == 0) {
        char victim[32];
        int pid = getpid();
        CHECK(MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD));
        snprintf(victim, sizeof victim, "orphans%d", pid);
        start(2, victim, MPI_COMM_WORLD, &inter);
    } else if (strcmp(what, "stuck") == 0) {
        start(2, what, MPI_COMM_WORLD, &inter);
        stuck(strcmp(argv[2], "any") == 0 ? MPI_ANY_SOURCE : rank, inter);
    } else if (strcmp(what, "patient") == 0) {
        start(2, what, MPI_COMM_WORLD, &inter);
        patient(0, inter);
    } else if (strcmp(what, "cores") == 0) {
        cores(atoi(argv[2]));
        CHECK(MPI_Finalize());
        return 0;
    } else if (strcmp(what, "emptied") == 0) {
        emptied(atoi(argv[2]), argc > 4 ? argv[4] : NULL);
        CHECK(MPI_Finalize());
        return argc > 3 && rank == 0 ? atoi(argv[3]) : 0;
    } else if (strcmp(what, "missing") == 0) {
        missing(argv[2]);
        CHECK(MPI_Finalize());
        return 0;
    } else if (strcmp(what, "greedy") == 0) {
        if (rank == 0)
            greedy();
    } else if (strcmp(what, "places") == 0) {
        places(atoi(argv[2]), argc > 3 ? argv[3] : "");
        CHECK(MPI_Finalize());
        return 0;
    } else if (strcmp(what, "universe") == 0) {
        int *universe, flag;
        CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag));
        if (rank == 0)
            printf("universe %d\n", flag ? *universe : -1);
        CHECK(MPI_Finalize());
        return 0;
    } else if (strcmp(what, "nodes") == 0) {
        char text[MPI_MAX_ERROR_STRING];
        int length, code;
        code = MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
        CHECK(MPI_Error_string(code, text, &length));
        if (rank == 0)
            printf("%s\n", text);
        FAILS(code, MPI_ERR_SPAWN);
        CHECK(MPI_Finalize());
        return 0;
    } else {
        start(1, what, MPI_COMM_WORLD, &inter);
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        printf("spawn is right\n");
    CHECK(MPI_Finalize());
    return 0;
}
