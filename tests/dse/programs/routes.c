/* Topologies that route, and programs as processes. */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_dse.h>

enum { BAND = 20000, ROUNDS = 3 };
static int me, count;
static unsigned char own[BAND], found[BAND];

static int64_t twice(int64_t argument)
{
    return 2 * argument;
}

/* All write to all, a band for each writer, and read it back; each way has the length that next_hop gives. */
static void all_to_all(int kind, int columns)
{
    int next, hops;
    OK(tutti_dse_topology(kind | TUTTI_DSE_ROUTES, columns));
    for (int round = 0; round < ROUNDS; round++) {
        for (int shift = 0; shift < count; shift++) {
            int to = (me + shift) % count;
            for (int i = 0; i < BAND; i++)
                own[i] = (unsigned char)(i * 7 + me * 31 + to * 3 + round + kind);
            OK(tutti_dse_write(to, (size_t)me * BAND, own, BAND));
            OK(tutti_dse_next_hop(to, &next, &hops));
            CHECK(hops < 2 || tutti_dse_hops() == hops);
            memset(found, 0, BAND);
            OK(tutti_dse_confirm());
            OK(tutti_dse_read(to, (size_t)me * BAND, found, BAND));
            CHECK(memcmp(found, own, BAND) == 0);
        }
        OK(tutti_dse_barrier());
        for (int from = 0; from < count; from++) {
            OK(tutti_dse_read(me, (size_t)from * BAND, found, BAND));
            for (int i = 0; i < BAND; i++)
                CHECK(found[i] == (unsigned char)(i * 7 + from * 31 + me * 3 + round + kind));
        }
        OK(tutti_dse_barrier());
    }
}

/* The last element starts functions and programs on all others while a topology routes. */
static void processes(int function)
{
    const char *seven[] = {"sh", "-c", "echo \"element says $1\"; exit 7", "sh", "hello", NULL};
    const char *killed[] = {"sh", "-c", "kill -9 $$", NULL};
    const char *missing[] = {"/no/such/program", NULL};
    const char *rank[] = {"sh", "-c", "test -z \"$TUTTI_TICKET$TUTTI_RANK\"", NULL};
    const char *none[] = {NULL};
    char word[2100];
    const char *large[] = {word, NULL};
    int64_t value;
    OK(tutti_dse_topology(TUTTI_DSE_RING | TUTTI_DSE_ROUTES, 0));
    if (me != count - 1) {
        OK(tutti_dse_serve());
        OK(tutti_dse_barrier());
        return;
    }
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = 0;
    if (count > 1) {
        REFUSED(tutti_dse_start_program(0, none), TUTTI_DSE_INVALID, "the name of a program");
        REFUSED(tutti_dse_start_program(0, NULL), TUTTI_DSE_INVALID, "the name of a program");
        REFUSED(tutti_dse_start_program(0, large), TUTTI_DSE_INVALID, "at most 2048 bytes");
    }
    REFUSED(tutti_dse_start_program(me, seven), TUTTI_DSE_NO_ELEMENT, "is this one");
    for (int element = 0; element < me; element++)
        OK(tutti_dse_start_program(element, seven));
    if (count > 1)
        REFUSED(tutti_dse_start_program(0, seven), TUTTI_DSE_BUSY, "not been waited for");
    for (int element = 0; element < me; element++) {
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 7);
        OK(tutti_dse_start_program(element, killed));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 128 + 9);
        OK(tutti_dse_start_program(element, rank));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 0);
        OK(tutti_dse_start_program(element, missing));
        REFUSED(tutti_dse_wait(element, &value), TUTTI_DSE_NO_PROGRAM, "No such file");
        OK(tutti_dse_start(element, function, element));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 2 * element);
        OK(tutti_dse_dismiss(element));
    }
    OK(tutti_dse_barrier());
}

int main(void)
{
    int function = tutti_dse_register(twice);
    CHECK(tutti_dse_hops() == -1);
    OK(tutti_dse_init((size_t)8 * BAND));
    me = tutti_dse_element(), count = tutti_dse_elements();
    CHECK(count <= 8 && tutti_dse_hops() == 0);
    all_to_all(TUTTI_DSE_RING, 0);
    all_to_all(TUTTI_DSE_STAR, 0);
    all_to_all(TUTTI_DSE_TREE, 0);
    if ((count & (count - 1)) == 0)
        all_to_all(TUTTI_DSE_HYPERCUBE, 0);
    if (count % 2 == 0) {
        all_to_all(TUTTI_DSE_MESH, 2);
        all_to_all(TUTTI_DSE_TORUS, 2);
    }
    /* A line: an element at the end reaches the other by way of all. */
    all_to_all(TUTTI_DSE_MESH, 1);
    all_to_all(TUTTI_DSE_FULL, 0);
    processes(function);
    /* Without routing the same is refused again. */
    OK(tutti_dse_topology(TUTTI_DSE_MESH, 1));
    if (count > 2 && me == 0)
        REFUSED(tutti_dse_write(count - 1, 0, own, 1), TUTTI_DSE_NOT_A_NEIGHBOUR, "by way of 1");
    OK(tutti_dse_barrier());
    if (me == 0)
        puts("routes: ok");
    OK(tutti_dse_finish());
    return 0;
}
