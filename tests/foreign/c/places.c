/* Ranks that call libpmix themselves: places LIBPMIX. Rank 0 starts processes on the last rank's node, two by one order and
 * one by another; each prints what PMIx says of its place. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct proc {
    char space[256];
    uint32_t rank;
};
struct value {
    uint16_t type;
    union {
        uint16_t small;
        uint32_t number;
        int integer;
        char *text;
        struct proc *proc;
        uint64_t words[3];
    } data;
};
struct info {
    char key[512];
    uint32_t flags;
    struct value value;
};
struct data {
    struct proc proc;
    char key[512];
    struct value value;
};
struct app {
    char *command, **arguments, **environment, *directory;
    int ranks;
    struct info *infos;
    size_t count;
};

#define STRING 3
#define INT 6
#define WILDCARD (UINT32_MAX - 1)

#define CHECK(what) \
    do { \
        int status_ = (what); \
        if (status_) { \
            fprintf(stderr, "rank %u, line %d: %d from " #what "\n", me.rank, __LINE__, status_); \
            exit(4); \
        } \
    } while (0)

static struct proc me;
static int (*get)(const struct proc *, const char *, const struct info *, size_t, struct value **);

static struct value *of(const struct proc *process, const char *key)
{
    struct value *found;
    int status = get(process, key, NULL, 0, &found);
    if (status) {
        fprintf(stderr, "rank %u: no %s (%d)\n", me.rank, key, status);
        exit(5);
    }
    return found;
}

static struct info directive(const char *key, uint16_t type)
{
    struct info info;
    memset(&info, 0, sizeof info);
    strcpy(info.key, key);
    info.value.type = type;
    return info;
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*init)(struct proc *, void *, size_t), (*finalize)(void *, size_t);
    int (*spawn)(const struct info *, size_t, const struct app *, size_t, char *);
    int (*publish)(const struct info *, size_t), (*lookup)(struct data *, size_t, const struct info *, size_t);
    if (!library)
        return 2;
    *(void **)&init = dlsym(library, "PMIx_Init");
    *(void **)&finalize = dlsym(library, "PMIx_Finalize");
    *(void **)&get = dlsym(library, "PMIx_Get");
    *(void **)&publish = dlsym(library, "PMIx_Publish");
    *(void **)&lookup = dlsym(library, "PMIx_Lookup");
    *(void **)&spawn = dlsym(library, "PMIx_Spawn");
    CHECK(init(&me, NULL, 0));

    struct proc all = me, last = me;
    all.rank = WILDCARD;
    struct value *parent;
    if (get(&me, "pmix.parent", NULL, 0, &parent) == 0) {
        /* A process that is over gives its number away: all are there until the last one is. */
        struct data started;
        struct info wait[] = {directive("pmix.wait", INT), directive("pmix.timeout", INT)};
        memset(&started, 0, sizeof started);
        strcpy(started.key, "started");
        wait[0].value.data.integer = 1;
        wait[1].value.data.integer = 300;
        CHECK(lookup(&started, 1, wait, 2));
        /* Rank 0 has started it. */
        CHECK((int)parent->data.proc->rank);
    } else if (me.rank == 0) {
        char *arguments[] = {argv[0], argv[1], NULL}, space[256];
        struct info host = directive("pmix.host", STRING), started = directive("started", INT);
        struct app app = {argv[0], arguments, NULL, NULL, 2, &host, 1};
        last.rank = of(&all, "pmix.job.size")->data.number - 1;
        host.value.data.text = of(&last, "pmix.hname")->data.text;
        CHECK(spawn(NULL, 0, &app, 1, space));
        app.ranks = 1;
        CHECK(spawn(NULL, 0, &app, 1, space));
        CHECK(publish(&started, 1));
    }
    printf("node %u, global %u of %u, on the node %u of %u\n", of(&me, "pmix.nodeid")->data.number,
           of(&me, "pmix.grank")->data.number, of(&all, "pmix.offset")->data.number, of(&me, "pmix.nrank")->data.small,
           of(&all, "pmix.node.size")->data.number);
    CHECK(finalize(NULL, 0));
    return 0;
}
