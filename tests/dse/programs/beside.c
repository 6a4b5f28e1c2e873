/* Functions and programs that run on elements which compute, and are ended from elsewhere.
 *
 * Element 0 starts; the others serve beside their programs and compute until element 0 writes into their memory. */
#define _DEFAULT_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_dse.h>
#include <unistd.h>

enum { GO = 0, BEGAN = 8, COUNTED = 16, BYTES = 64 };
static int me, n, failures, is_apart;
#define CHECK(holds)                                                                       \
    do {                                                                                   \
        if (!(holds)) {                                                                    \
            fprintf(stderr, "element %d, line %d: expected %s (%s)\n", me, __LINE__, #holds, tutti_dse_text()); \
            failures++;                                                                    \
        }                                                                                  \
    } while (0)
#define OK(call) CHECK((call) == TUTTI_DSE_OK)

static int64_t word(int element, size_t at)
{
    int64_t found = -1;
    OK(tutti_dse_read(element, at, &found, sizeof found));
    return found;
}

static void set(int element, size_t at, int64_t value) { OK(tutti_dse_write_confirmed(element, at, &value, sizeof value)); }

/* Gives its argument back, and where it ran. */
static int64_t answer(int64_t argument) { return argument * 100 + tutti_dse_element(); }

/* Runs until it is to end. */
static int64_t endless(int64_t argument)
{
    set(tutti_dse_element(), BEGAN, 1);
    while (!tutti_dse_is_ended())
        sched_yield();
    return argument + 1;
}

static void await(int element, size_t at, int64_t value)
{
    while (word(element, at) != value)
        sched_yield();
}

/* Starts a program that says by a file that it has begun, and waits for that. */
static void start_and_await(int element, const char *folder, const char *script)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, "begun");
    const char *words[] = {"sh", "-c", script, "sh", path, NULL};
    OK(tutti_dse_start_program(element, words));
    while (access(path, F_OK))
        sched_yield();
    unlink(path);
}

static void start_on_those_that_compute(int function_answer, int function_endless)
{
    int64_t value = 0;
    const char *seven[] = {"sh", "-c", "exit 7", NULL};
    char folder[] = "/tmp/dse-beside-XXXXXX";
    CHECK(mkdtemp(folder));
    for (int element = 1; element < n; element++) {
        CHECK(tutti_dse_end(element) == TUTTI_DSE_NOTHING_STARTED);
        OK(tutti_dse_start_program(element, seven));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 7);
        start_and_await(element, folder, ": > $1; exec sleep 1000");
        CHECK(tutti_dse_start_program(element, seven) == TUTTI_DSE_BUSY);
        OK(tutti_dse_end(element));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 128 + SIGTERM);
        start_and_await(element, folder, "trap '' TERM; : > $1; exec sleep 1000");
        OK(tutti_dse_end(element));
        OK(tutti_dse_end(element));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 128 + SIGKILL);
        /* The next one is not ended by what was asked before. */
        OK(tutti_dse_start_program(element, seven));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 7);
        if (is_apart)
            continue;
        OK(tutti_dse_start(element, function_answer, 5));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 500 + element);
        OK(tutti_dse_start(element, function_endless, 41));
        await(element, BEGAN, 1);
        OK(tutti_dse_end(element));
        OK(tutti_dse_wait(element, &value));
        CHECK(value == 42);
    }
    rmdir(folder);
    for (int element = 1; element < n; element++) {
        CHECK(word(element, COUNTED) > 0);
        set(element, GO, 1);
    }
}

/* What was started on an element that does not serve yet, and is ended before. */
static void end_before_the_beginning(int function_answer)
{
    int64_t value;
    const char *seven[] = {"sh", "-c", "exit 7", NULL};
    OK(tutti_dse_start_program(1, seven));
    OK(tutti_dse_end(1));
    set(1, GO, 2);
    CHECK(tutti_dse_wait(1, &value) == TUTTI_DSE_ENDED);
    CHECK(strstr(tutti_dse_text(), "ended before it had begun"));
    OK(tutti_dse_start(1, function_answer, 6));
    OK(tutti_dse_wait(1, &value));
    CHECK(value == 601);
    OK(tutti_dse_dismiss(1));
}

int main(void)
{
    const char *kernel = getenv("TUTTI_DSE_KERNEL");
    is_apart = kernel && !strcmp(kernel, "apart");
    CHECK(tutti_dse_serve_beside() == TUTTI_DSE_NOT_RUNNING && tutti_dse_is_ended() == -1);
    OK(tutti_dse_init(BYTES));
    me = tutti_dse_element(), n = tutti_dse_elements();
    int function_answer = tutti_dse_register(answer), function_endless = tutti_dse_register(endless);
    CHECK(tutti_dse_is_ended() == 0);
    /* Before any of them serves. */
    OK(tutti_dse_barrier());
    if (me == 0 && n > 1)
        end_before_the_beginning(function_answer);
    if (me == 1) {
        await(me, GO, 2);
        OK(tutti_dse_serve());
    }
    OK(tutti_dse_barrier());
    if (me > 0) {
        OK(tutti_dse_serve_beside());
        CHECK(tutti_dse_serve_beside() == TUTTI_DSE_BUSY);
    }
    OK(tutti_dse_barrier());
    if (me == 0)
        start_on_those_that_compute(function_answer, function_endless);
    for (int64_t counted = 1; me > 0 && word(me, GO) != 1; counted++)
        set(me, COUNTED, counted);
    OK(tutti_dse_barrier());
    int64_t all = failures;
    set(0, BYTES - 8, 0);
    OK(tutti_dse_barrier());
    if (all)
        set(0, BYTES - 8, 1);
    OK(tutti_dse_barrier());
    if (me == 0 && word(0, BYTES - 8) == 0)
        printf("beside: ok\n");
    OK(tutti_dse_finish());
    return failures != 0;
}
