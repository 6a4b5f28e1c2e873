/* Holds global memory with a mark in it: heaps shmem|dse. Says "up" when it is there, and waits. */
#define _DEFAULT_SOURCE
#include <shmem.h>
#include <stdio.h>
#include <string.h>
#include <tutti_dse.h>
#include <unistd.h>

enum { BYTES = 1 << 16 };

static const char mark[] = "memory of the honest user";

static int hold_shmem(void)
{
    shmem_init();
    char *heap = shmem_malloc(BYTES);
    if (heap == NULL)
        return 3;
    shmem_putmem(heap, mark, sizeof mark, (shmem_my_pe() + 1) % shmem_n_pes());
    shmem_barrier_all();
    return strcmp(heap, mark) != 0;
}

static int hold_dse(void)
{
    char found[sizeof mark] = "";
    if (tutti_dse_init(BYTES) || tutti_dse_barrier())
        return 3;
    int element = tutti_dse_element();
    if (tutti_dse_write_confirmed(element, 0, mark, sizeof mark) || tutti_dse_read(element, 0, found, sizeof found))
        return 4;
    return strcmp(found, mark) != 0;
}

int main(int count, char **words)
{
    int wrong = count == 2 && strcmp(words[1], "dse") == 0 ? hold_dse() : hold_shmem();
    if (wrong)
        return wrong;
    puts("up");
    fflush(stdout);
    for (;;)
        pause();
}
