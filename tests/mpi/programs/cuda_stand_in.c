/* What Tutti asks CUDA's library, if one is loaded: here all that nobody can read is a device's. */
#include <stdint.h>
#include <stdio.h>

int cuPointerGetAttributes(unsigned count, int *attributes, void **values, unsigned long long at);

int cuPointerGetAttributes(unsigned count, int *attributes, void **values, unsigned long long at) {
    int is_device = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long long from, to;
        char rights[8];
        if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) == 3 && from <= at && at < to) {
            is_device = rights[0] == '-';
        }
    }
    if (maps) fclose(maps);
    for (unsigned i = 0; i < count; i++) {
        if (attributes[i] == 2) *(unsigned *)values[i] = is_device ? 2 : 0;
        if (attributes[i] == 8) *(char *)values[i] = 0;
    }
    return 0;
}
