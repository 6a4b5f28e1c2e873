/* Alignments in a heap that is smaller than they are. */
#include "check.h"
#include <stdint.h>

int main(void)
{
    shmem_init();
    for (size_t align = 64; align <= (size_t)2 << 20; align *= 2) {
        void *aligned = shmem_align(align, 64);
        CHECK(aligned != NULL && (uintptr_t)aligned % align == 0);
        shmem_free(aligned);
    }
    CHECK(shmem_align((size_t)4 << 20, 64) == NULL);
    return finish("small_heap");
}
