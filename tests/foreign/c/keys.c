/* Ranks that call libpmix themselves: keys LIBPMIX. Keys of a rank that no fence has brought, deadlines of those that do
 * not come, fences of some ranks, published values that are waited for. */
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
        uint32_t number;
        int integer;
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

#define INT 6
#define UINT32 14
#define GLOBAL 3
#define WILDCARD (UINT32_MAX - 1)
#define TIMEOUT (-24)

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "rank %u, line %d: " #what "\n", me.rank, __LINE__); \
            exit(4); \
        } \
    } while (0)
#define EXPECT(status, what) \
    do { \
        int status_ = (what); \
        if (status_ != (status)) { \
            fprintf(stderr, "rank %u, line %d: %d from " #what "\n", me.rank, __LINE__, status_); \
            exit(4); \
        } \
    } while (0)

static struct info directive(const char *key, int value)
{
    struct info info;
    memset(&info, 0, sizeof info);
    strcpy(info.key, key);
    info.value.type = INT;
    info.value.data.integer = value;
    return info;
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*init)(struct proc *, void *, size_t), (*finalize)(void *, size_t), (*commit)(void);
    int (*put)(uint8_t, const char *, struct value *);
    int (*get)(const struct proc *, const char *, const struct info *, size_t, struct value **);
    int (*fence)(const struct proc *, size_t, const struct info *, size_t);
    int (*publish)(const struct info *, size_t), (*unpublish)(char **, const struct info *, size_t);
    int (*lookup)(struct data *, size_t, const struct info *, size_t);
    if (!library)
        return 2;
    *(void **)&init = dlsym(library, "PMIx_Init");
    *(void **)&finalize = dlsym(library, "PMIx_Finalize");
    *(void **)&commit = dlsym(library, "PMIx_Commit");
    *(void **)&put = dlsym(library, "PMIx_Put");
    *(void **)&get = dlsym(library, "PMIx_Get");
    *(void **)&fence = dlsym(library, "PMIx_Fence");
    *(void **)&publish = dlsym(library, "PMIx_Publish");
    *(void **)&unpublish = dlsym(library, "PMIx_Unpublish");
    *(void **)&lookup = dlsym(library, "PMIx_Lookup");

    struct proc me, other, ends[2];
    struct value value = {UINT32, {0}}, *found;
    struct info second = directive("pmix.timeout", 1), wait[2];
    if (init(&me, NULL, 0))
        return 3;
    other = me;
    other.rank = WILDCARD;
    CHECK(get(&other, "pmix.job.size", NULL, 0, &found) == 0);
    uint32_t size = found->data.number, last = size - 1;
    ends[0] = ends[1] = me;
    ends[0].rank = 0;
    ends[1].rank = last;
    other.rank = last;

    /* Nobody has put it, and the rank may wait a second. */
    if (me.rank == 0)
        EXPECT(TIMEOUT, get(&other, "key", &second, 1, &found));
    if (me.rank == 0 || me.rank == last) {
        for (int round = 0; round < 3; round++)
            EXPECT(0, fence(ends, 2, NULL, 0));
    } else {
        EXPECT(0, fence(&me, 1, NULL, 0));
    }
    value.data.number = 100 + me.rank;
    CHECK(put(GLOBAL, "key", &value) == 0 && commit() == 0);
    /* No fence has brought it. */
    if (me.rank == 0)
        CHECK(get(&other, "key", NULL, 0, &found) == 0 && found->data.number == 100 + last);
    /* The last rank does not come. */
    if (me.rank == 0)
        EXPECT(TIMEOUT, fence(ends, 2, &second, 1));
    EXPECT(0, fence(NULL, 0, NULL, 0));
    /* Each on its own node: the last rank comes to a fence of all that the others have given up. */
    if (argc > 2) {
        char ready[] = "ready";
        struct info wants_ready[2] = {directive("pmix.wait", 1), directive("pmix.timeout", 300)};
        struct data late;
        memset(&late, 0, sizeof late);
        strcpy(late.key, ready);
        if (me.rank == last)
            CHECK(lookup(&late, 1, wants_ready, 2) == 0);
        EXPECT(TIMEOUT, fence(NULL, 0, &second, me.rank != last));
        if (me.rank == 0) {
            struct info info = directive(ready, 1);
            CHECK(publish(&info, 1) == 0);
        }
        EXPECT(0, fence(NULL, 0, NULL, 0));
    }

    struct data wanted;
    memset(&wanted, 0, sizeof wanted);
    strcpy(wanted.key, "published");
    wait[0] = directive("pmix.wait", 1);
    wait[1] = second;
    if (me.rank == last) {
        CHECK(lookup(&wanted, 1, NULL, 0) != 0);
        EXPECT(TIMEOUT, lookup(&wanted, 1, wait, 2));
    }
    EXPECT(0, fence(NULL, 0, NULL, 0));
    if (me.rank == last) {
        wait[1] = directive("pmix.timeout", 300);
        CHECK(lookup(&wanted, 1, wait, 2) == 0 && wanted.value.data.integer == 7 && wanted.proc.rank == 0);
    } else if (me.rank == 0) {
        struct info info = directive("published", 7);
        CHECK(publish(&info, 1) == 0 && publish(&info, 1) != 0);
    }
    EXPECT(0, fence(NULL, 0, NULL, 0));
    if (me.rank == 0) {
        char *keys[] = {"published", NULL};
        CHECK(unpublish(keys, NULL, 0) == 0);
    }
    EXPECT(0, fence(NULL, 0, NULL, 0));
    CHECK(lookup(&wanted, 1, NULL, 0) != 0);
    CHECK(finalize(NULL, 0) == 0);
    printf("rank %u of %u: all right\n", me.rank, size);
    return 0;
}
