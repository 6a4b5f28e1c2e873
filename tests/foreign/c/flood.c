/* A rank that puts gigabytes of keys over PMIx: flood LIBPMIX. It calls libpmix itself, and never ends by itself. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct proc {
    char space[256];
    uint32_t rank;
};
struct value {
    uint16_t type;
    union {
        struct {
            char *bytes;
            size_t size;
        } object;
        char room[24];
    } data;
};

#define BYTE_OBJECT 27
#define GLOBAL 3

int main(int argc, char **argv)
{
    size_t size = 1 << 20;
    struct proc me;
    struct value value = {BYTE_OBJECT, {{malloc(size), size}}};
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*init)(struct proc *, void *, size_t), (*put)(uint8_t, const char *, struct value *), (*commit)(void);

    if (!library)
        return 2;
    *(void **)&init = dlsym(library, "PMIx_Init");
    *(void **)&put = dlsym(library, "PMIx_Put");
    *(void **)&commit = dlsym(library, "PMIx_Commit");
    if (init(&me, NULL, 0))
        return 3;
    puts("floods");
    fflush(stdout);
    /* libpmix compresses what it can. */
    uint64_t random = 88172645463325252u;
    for (size_t at = 0; at + sizeof random <= size; at += sizeof random) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        memcpy(value.data.object.bytes + at, &random, sizeof random);
    }
    for (int number = 0; number < 1 << 12; number++) {
        char key[32];
        snprintf(key, sizeof key, "key.%d", number);
        /* All that it has put until then goes with each commit. */
        if (put(GLOBAL, key, &value) || (number % 64 == 63 && commit()))
            break;
    }
    for (;;)
        pause();
}
