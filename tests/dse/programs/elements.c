/* Memory, processes, locks, semaphores and topologies of DSE, and every refusal. */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_dse.h>

enum { BYTES = 1 << 17, ROUNDS = 50 };
static int me, count;
static char local[BYTES], other[BYTES];

static int64_t square(int64_t argument)
{
    int64_t own = argument * argument;
    /* At another element than the one that started it. */
    OK(tutti_dse_write(me, 64, &own, sizeof own));
    return own;
}

static void memory(void)
{
    int next = (me + 1) % count, before = (me + count - 1) % count;
    OK(tutti_dse_read(next, 0, local, BYTES));
    for (int i = 0; i < BYTES; i++)
        CHECK(local[i] == 0);
    OK(tutti_dse_barrier());
    memset(local, me + 1, BYTES);
    for (int at = 0; at < BYTES; at += BYTES / 16) /* several in flight */
        OK(tutti_dse_write(next, (size_t)at, local, BYTES / 16));
    OK(tutti_dse_barrier());
    OK(tutti_dse_read(me, 0, other, BYTES));
    for (int i = 0; i < BYTES; i++)
        CHECK(other[i] == before + 1);
    OK(tutti_dse_barrier());
    OK(tutti_dse_write_confirmed(next, BYTES - 1, "x", 1));
    OK(tutti_dse_read(next, BYTES - 1, other, 1));
    CHECK(other[0] == 'x');
    OK(tutti_dse_read(next, BYTES, NULL, 0));
    OK(tutti_dse_barrier());
}

static void refusals(void)
{
    REFUSED(tutti_dse_read(count, 0, local, 1), TUTTI_DSE_NO_ELEMENT, "there is no element");
    REFUSED(tutti_dse_write(-1, 0, local, 1), TUTTI_DSE_NO_ELEMENT, "there is no element -1");
    REFUSED(tutti_dse_read(0, BYTES - 1, local, 2), TUTTI_DSE_OUT_OF_RANGE, "reach beyond");
    REFUSED(tutti_dse_read(0, (size_t)-1, local, 2), TUTTI_DSE_OUT_OF_RANGE, "reach beyond");
    REFUSED(tutti_dse_write(0, 0, NULL, 2), TUTTI_DSE_INVALID, "null");
    REFUSED(tutti_dse_unlock(3), TUTTI_DSE_NOT_HELD, "does not have lock 3");
    REFUSED(tutti_dse_lock(64), TUTTI_DSE_INVALID, "there is no lock 64");
    REFUSED(tutti_dse_semaphore_wait(-1), TUTTI_DSE_INVALID, "there is no semaphore -1");
    REFUSED(tutti_dse_topology(9, 0), TUTTI_DSE_INVALID, "there is no topology 9");
    REFUSED(tutti_dse_topology(TUTTI_DSE_MESH, count + 1), TUTTI_DSE_INVALID, "columns");
    REFUSED(tutti_dse_start(me, 0, 0), TUTTI_DSE_NO_ELEMENT, "is this one");
    REFUSED(tutti_dse_start(0, 5, 0), TUTTI_DSE_INVALID, "no function 5");
    REFUSED(tutti_dse_init(8), TUTTI_DSE_NOT_RUNNING, "second time");
    if (count > 1)
        REFUSED(tutti_dse_wait((me + 1) % count, NULL), TUTTI_DSE_NOTHING_STARTED, "started nothing");
    OK(tutti_dse_barrier());
}

static void exclusion(void)
{
    long value = 0, zero = 0;
    if (me == 0)
        OK(tutti_dse_write_confirmed(0, 0, &zero, sizeof zero));
    OK(tutti_dse_barrier());
    for (int round = 0; round < ROUNDS; round++) {
        OK(tutti_dse_lock(7));
        REFUSED(tutti_dse_lock(7), TUTTI_DSE_HELD, "has lock 7 already");
        OK(tutti_dse_read(0, 0, &value, sizeof value));
        value++;
        OK(tutti_dse_write(0, 0, &value, sizeof value));
        OK(tutti_dse_unlock(7));
    }
    OK(tutti_dse_barrier());
    OK(tutti_dse_read(0, 0, &value, sizeof value));
    CHECK(value == (long)ROUNDS * count);
    OK(tutti_dse_barrier());

    /* A semaphore of one is a lock; one of zero hands over. */
    if (me == 0)
        OK(tutti_dse_semaphore_set(1, 1));
    OK(tutti_dse_barrier());
    for (int round = 0; round < ROUNDS; round++) {
        OK(tutti_dse_semaphore_wait(1));
        OK(tutti_dse_read(0, 0, &value, sizeof value));
        value--;
        OK(tutti_dse_write(0, 0, &value, sizeof value));
        OK(tutti_dse_semaphore_post(1));
    }
    OK(tutti_dse_barrier());
    OK(tutti_dse_read(0, 0, &value, sizeof value));
    CHECK(value == 0);
    for (int round = 0; round < ROUNDS; round++) {
        if (me == 0)
            for (int element = 1; element < count; element++)
                OK(tutti_dse_semaphore_post(2));
        else
            OK(tutti_dse_semaphore_wait(2));
    }
    OK(tutti_dse_barrier());
}

static void processes(int function)
{
    if (me != 0) {
        OK(tutti_dse_serve());
        return;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int element = 1; element < count; element++)
            OK(tutti_dse_start(element, function, element + round));
        if (count > 1)
            REFUSED(tutti_dse_start(1, function, 0), TUTTI_DSE_BUSY, "not been waited for");
        for (int element = 1; element < count; element++) {
            int64_t value = 0, there = 0;
            OK(tutti_dse_wait(element, &value));
            CHECK(value == (int64_t)(element + round) * (element + round));
            OK(tutti_dse_read(element, 64, &there, sizeof there));
            CHECK(there == value);
        }
    }
    for (int element = 1; element < count; element++)
        OK(tutti_dse_dismiss(element));
}

static void topologies(void)
{
    int next, hops;
    OK(tutti_dse_topology(TUTTI_DSE_STAR, 0));
    for (int to = 0; to < count; to++) {
        OK(tutti_dse_next_hop(to, &next, &hops));
        int wanted = to == me ? 0 : to == 0 || me == 0 ? 1 : 2;
        CHECK(hops == wanted && next == (hops == 2 ? 0 : to));
        if (hops < 2)
            OK(tutti_dse_read(to, 0, local, 8));
        else
            REFUSED(tutti_dse_read(to, 0, local, 8), TUTTI_DSE_NOT_A_NEIGHBOUR, "by way of 0");
    }
    OK(tutti_dse_topology(TUTTI_DSE_FULL, 0));
}

int main(void)
{
    REFUSED(tutti_dse_barrier(), TUTTI_DSE_NOT_RUNNING, "before tutti_dse_init");
    CHECK(tutti_dse_element() == -1);
    int function = tutti_dse_register(square);
    CHECK(function == 0 && tutti_dse_register(NULL) == -1);
    OK(tutti_dse_init(BYTES));
    me = tutti_dse_element(), count = tutti_dse_elements();
    memory();
    refusals();
    exclusion();
    processes(function);
    OK(tutti_dse_barrier());
    topologies();
    if (me == 0)
        puts("elements: ok");
    OK(tutti_dse_finish());
    REFUSED(tutti_dse_read(0, 0, local, 1), TUTTI_DSE_NOT_RUNNING, "after its end");
    return 0;
}
