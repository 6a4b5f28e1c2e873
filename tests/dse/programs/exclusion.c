/* Locks and semaphores keep a function out that runs beside the program of its element, as they keep other elements out. */
#include "check.h"
#include <sched.h>
#include <stdint.h>

enum { ROUNDS = 200, LOCK = 3, SEMAPHORE = 5, UNDER_LOCK = 0, UNDER_SEMAPHORE = 8, BYTES = 64 };

/* Adds by a read and a write, which another one's in between would spoil. */
static void add(size_t at)
{
    int64_t found;
    OK(tutti_dse_read(0, at, &found, sizeof found));
    sched_yield();
    found++;
    OK(tutti_dse_write_confirmed(0, at, &found, sizeof found));
}

static int64_t work(int64_t rounds)
{
    for (int64_t round = 0; round < rounds; round++) {
        OK(tutti_dse_lock(LOCK));
        add(UNDER_LOCK);
        OK(tutti_dse_unlock(LOCK));
        OK(tutti_dse_semaphore_wait(SEMAPHORE));
        add(UNDER_SEMAPHORE);
        OK(tutti_dse_semaphore_post(SEMAPHORE));
    }
    return rounds;
}

int main(void)
{
    OK(tutti_dse_init(BYTES));
    const char *kernel = getenv("TUTTI_DSE_KERNEL");
    int has_functions = !kernel || strcmp(kernel, "apart") != 0;
    int me = tutti_dse_element(), n = tutti_dse_elements(), function = tutti_dse_register(work);
    if (me == 0)
        OK(tutti_dse_semaphore_set(SEMAPHORE, 1));
    OK(tutti_dse_serve_beside());
    OK(tutti_dse_barrier());
    int next = (me + 1) % n, starts = n > 1 && has_functions;
    if (starts)
        OK(tutti_dse_start(next, function, ROUNDS));
    work(ROUNDS);
    if (starts) {
        int64_t value;
        OK(tutti_dse_wait(next, &value));
        CHECK(value == ROUNDS);
    }
    OK(tutti_dse_lock(LOCK));
    REFUSED(tutti_dse_lock(LOCK), TUTTI_DSE_HELD, "has lock 3 already");
    OK(tutti_dse_unlock(LOCK));
    REFUSED(tutti_dse_unlock(LOCK), TUTTI_DSE_NOT_HELD, "does not have lock 3");
    OK(tutti_dse_barrier());
    int64_t found[2];
    OK(tutti_dse_read(0, 0, found, sizeof found));
    CHECK(found[0] == (starts ? 2 : 1) * n * ROUNDS && found[1] == found[0]);
    OK(tutti_dse_barrier());
    if (me == 0)
        printf("exclusion: ok\n");
    OK(tutti_dse_finish());
    return 0;
}
