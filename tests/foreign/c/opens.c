/* Opens a library of MPICH by its path, as a program does that chooses one when it runs; or, without a path, asks its launcher by
 * PMI itself, as one does that is linked statically. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of PMI-1 and its answer, which begins with this. */
static int asked(int launcher, const char *line, const char *expected)
{
    char answer[256];
    size_t length = 0;
    if (write(launcher, line, strlen(line)) != (ssize_t)strlen(line))
        return 0;
    while (length < sizeof answer - 1 && read(launcher, answer + length, 1) == 1 && answer[length] != '\n')
        length++;
    answer[length] = 0;
    return !strncmp(answer, expected, strlen(expected));
}

int main(int count, char **words)
{
    if (count == 1) {
        const char *launcher = getenv("PMI_FD");
        int is_right = launcher &&
                       asked(atoi(launcher), "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init") &&
                       asked(atoi(launcher), "cmd=finalize\n", "cmd=finalize_ack");
        return is_right ? 0 : 1;
    }
#ifndef ALONE
    void *library = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*init)(int *, char ***), (*finalize)(void);
    *(void **)&init = dlsym(library, "MPI_Init");
    *(void **)&finalize = dlsym(library, "MPI_Finalize");
    return init && finalize && !init(&count, &words) && !finalize() ? 0 : 1;
#else
    (void)words;
    return 1;
#endif
}
