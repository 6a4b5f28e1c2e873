// Opens a published region of another node: whatever listens where this node's daemon would be is asked.
#include <stdio.h>
#include <tutti.h>

int main(int argc, char **argv) {
    tutti_region region;
    (void)argc;
    printf("status %d\n", tutti_open_published(argv[1], 0, &region, NULL));
    return 0;
}
