/* A program written for threads: its variables of C are shared (tutticc --globals=shared). Arguments: the number of
 * processes, what to do wrong without a lock: "race", "same" and "late" store to a variable, and a name. The last argument is
 * kept in a variable. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define ROUNDS 20
#define PLACES 3000

struct item {
    struct item *next;
    long value;
};

LOCKDEC(lock)
LOCKDEC(list_lock)
BARDEC(meet)
CONDVARDEC(filled)

static long processes;
static const char *wrong = "", *path;
long counter = 5;
double table[PLACES];
static int marks[4] = {1, 2, 3, 4};
static const char *name = "initial";
static struct item *list;
static struct item items[64];
static long ready;
static char text[9000];
static long failures;
/* On one page. */
static volatile struct {
    long racer, touched[3];
} stored __attribute__((aligned(64)));
static const char *argument;
static size_t argument_bytes;

static void check(int is_right, const char *what) {
    if (!is_right) {
        printf("globals: %s\n", what);
        LOCK(lock)
        failures++;
        UNLOCK(lock)
    }
}

/* A static variable of a function is shared as others are. */
static long visits(void) {
    static long count = 100;
    return ++count;
}

static int descending(const void *one, const void *other) {
    return *(const int *)other - *(const int *)one;
}

static void fill(long me) {
    /* By the system, and by a library. */
    if (me == processes - 1) {
        int ends[2];
        check(pipe(ends) == 0 && write(ends[1], "from a pipe", 12) == 12, "a pipe");
        check(read(ends[0], text + 4090, 12) == 12, "read into a variable");
        qsort(marks, 4, sizeof *marks, descending);
        snprintf(text, sizeof text, "process %ld", me);
    }
}

static void leave_mark(long me) {
    char name[4096];
    snprintf(name, sizeof name, "%s.%ld", path, me);
    fclose(fopen(name, "w"));
}

/* Waits for another process beside all that orders shared memory. */
static void await_mark(long other) {
    char name[4096];
    snprintf(name, sizeof name, "%s.%ld", path, other);
    while (access(name, F_OK) != 0)
        usleep(1000);
}

static void run(void) {
    long me;
    GET_PID(me)
    check(strcmp(name, "initial") == 0 && marks[3] == 4, "values before CREATE");
    check(strlen(argument) == argument_bytes && argument[argument_bytes] == 0, "an argument of the program");
    BARRIER(meet, processes)
    for (long round = 0; round < ROUNDS; round++) {
        LOCK(lock)
        counter++;
        UNLOCK(lock)
        for (long place = me; place < PLACES; place += processes)
            table[place] += (double)place;
        BARRIER(meet, processes)
        check(table[(me * 7 + round) % PLACES] == (double)((me * 7 + round) % PLACES * (round + 1)), "another's element");
        BARRIER(meet, processes)
    }
    LOCK(list_lock)
    struct item *mine = &items[me];
    mine->value = visits();
    mine->next = list;
    list = mine;
    ready++;
    CONDVARBCAST(filled)
    while (ready < processes)
        CONDVARWAIT(filled, list_lock)
    UNLOCK(list_lock)
    long sum = 0;
    for (struct item *item = list; item != NULL; item = item->next)
        sum += item->value;
    check(sum == processes * 100 + processes * (processes + 1) / 2, "a list of variables");
    if (me == 0)
        name = "changed";
    fill(me);
    if (strcmp(wrong, "race") == 0)
        stored.racer = me + 1;
    /* Both have the page before either stores, and both have stored before either's store goes out: files say so. */
    if (strcmp(wrong, "same") == 0 && me > 0) {
        stored.touched[me] = 1;
        leave_mark(me);
        await_mark(3 - me);
        stored.racer = 7;
        leave_mark(me + 2);
        await_mark(5 - me);
    }
    /* The other's store has come here before this process synchronises. */
    if (strcmp(wrong, "late") == 0) {
        stored.racer = me + 1;
        if (me == 0)
            await_mark(1);
        LOCK(lock)
        UNLOCK(lock)
        leave_mark(me);
    }
    BARRIER(meet, processes)
    char expected[40];
    snprintf(expected, sizeof expected, "process %ld", processes - 1);
    check(strcmp(text, expected) == 0 && strcmp(text + 4090, "from a pipe") == 0, "what the system has stored");
    check(marks[0] == 4 && marks[3] == 1, "what a library has stored");
    check(strcmp(name, "changed") == 0, "a pointer to a literal");
}

int main(int argc, char **argv) {
    processes = argc > 1 ? atol(argv[1]) : 1;
    if (argc > 2)
        wrong = argv[2];
    if (argc > 3)
        path = argv[3];
    argument = argv[argc - 1];
    argument_bytes = strlen(argument);
    LOCKINIT(lock)
    LOCKINIT(list_lock)
    BARINIT(meet, processes)
    CONDVARINIT(filled)
    counter++;
    CREATE(run, processes)
    WAIT_FOR_END(processes)
    printf("globals: counter %ld, %ld failures\n", counter, failures);
    MAIN_END
}
