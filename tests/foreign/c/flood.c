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
    memset(value.data.object.bytes, 7, size);
    for (int number = 0; number < 1 << 12; number++) {
        char key[32];
        snprintf(key, sizeof key, "key.%d", number);
        if (put(GLOBAL, key, &value) || commit())
            break;
    }
    for (;;)
        pause();
}
