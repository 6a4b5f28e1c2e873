/* Opens libraries with RTLD_LOCAL, calls `plugin` in the first, finds MPI_Wtime by hand in the second, closes them. */

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin, *library;
    int (*call)(void);
    double (*wtime)(void);
    if (argc != 3 || !(plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) ||
        !(library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "%s\n", argc == 3 ? dlerror() : "two libraries are wanted");
        return 2;
    }
    *(void **)&call = dlsym(plugin, "plugin");
    *(void **)&wtime = dlsym(library, "MPI_Wtime");
    if (!call || call() != 0 || !wtime || wtime() <= 0.0) {
        fprintf(stderr, "the libraries do not work\n");
        return 1;
    }
    if (dlsym(RTLD_DEFAULT, "MPI_Wtime")) {
        fprintf(stderr, "RTLD_LOCAL made MPI_Wtime global\n");
        return 1;
    }
    dlclose(library);
    dlclose(plugin);
    puts("fine");
    return 0;
}
