/* Publishes regions and a signal under names that begin with the first argument, for whom the second one says, and does what its
 * messages say until it is told to end. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti.h>
#include <unistd.h>

#define CHECK(holds)                                                              \
    do {                                                                          \
        if (!(holds)) {                                                           \
            fprintf(stderr, "server, line %d: expected %s\n", __LINE__, #holds); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                         \
        }                                                                         \
    } while (0)

enum { BYTES = 1 << 20, ALL = TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC };

static const char *prefix, *whom;
static tutti_region all, beat, write_only, atomic_only, message;
static _Atomic int is_over;
static int64_t taken;

static char *name_of(const char *rest)
{
    static char name[4][64];
    static int next;
    char *out = name[next++ % 4];
    snprintf(out, 64, "%s-%s", prefix, rest);
    return out;
}

static void publish(const char *rest, int rights, tutti_region *region)
{
    void *memory = NULL;
    CHECK(tutti_publish(name_of(rest), BYTES, rights, whom, &memory, region) == TUTTI_OK);
    CHECK(memory != NULL && memory == tutti_published_memory(region));
}

/* Counts messages in the second number of the region for all, and does what they say. */
static void handle(const void *data, size_t bytes, int from, void *context)
{
    char text[65] = {0};
    CHECK(bytes <= 64 && from > 0 && context == &taken);
    memcpy(text, data, bytes);
    taken += 1;
    if (strcmp(text, "reopen") == 0) {
        CHECK(tutti_close(&all) == TUTTI_OK);
        CHECK(tutti_close(&all) == TUTTI_ERR_REGION);
        publish("all", ALL, &all);
    } else if (strcmp(text, "die") == 0) {
        raise(SIGKILL);
    } else if (strcmp(text, "close") == 0) {
        /* A function cannot wait for its own end. */
        CHECK(tutti_close(&message) == TUTTI_ERR_BUSY);
    } else if (strcmp(text, "end") == 0) {
        is_over = 1;
    }
    CHECK(tutti_write(&all, 8, &taken, 8, TUTTI_WAIT) == TUTTI_OK);
}

/* As long as the job runs this number grows. */
static void *beats(void *memory)
{
    const struct timespec pause = {0, 1000000};
    while (!is_over) {
        atomic_fetch_add((_Atomic int64_t *)memory, 1);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *memory;
    tutti_region region;
    CHECK(argc == 3);
    prefix = argv[1];
    whom = argv[2];
    CHECK(tutti_publish("too-early", 8, ALL, NULL, &memory, &region) == TUTTI_ERR_RUNNING);
    MPI_Init(&argc, &argv);
    publish("all", ALL, &all);
    publish("beat", TUTTI_READ, &beat);
    publish("write", TUTTI_WRITE, &write_only);
    publish("atomic", TUTTI_READ | TUTTI_ATOMIC, &atomic_only);
    /* The owner has all rights of what it publishes. */
    int64_t number = 5, found = -1;
    CHECK(tutti_write(&beat, 0, &number, 8, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_fetch_add(&beat, 0, 2, &found, TUTTI_WAIT) == TUTTI_OK && found == 5);
    CHECK(tutti_read(&write_only, 0, &found, 8, TUTTI_WAIT) == TUTTI_OK && found == 0);
    CHECK(tutti_wait_for(&beat, 0, TUTTI_EQ, 7) == TUTTI_OK);
    /* What makes no sense is refused. */
    CHECK(tutti_publish(name_of("all"), 8, ALL, whom, &memory, &region) == TUTTI_ERR_BUSY);
    CHECK(tutti_publish("a/b", 8, ALL, NULL, &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish("", 8, ALL, NULL, &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish(NULL, 8, ALL, NULL, &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish("x", 0, ALL, NULL, &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish("x", 8, 0, NULL, &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish("x", 8, 64, NULL, &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish("x", 8, ALL, "nobody:at:all", &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish("x", 8, ALL, NULL, NULL, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish("x", (size_t)-1, ALL, NULL, &memory, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish_signal("x", 0, NULL, handle, NULL, &region) == TUTTI_ERR_ARG);
    CHECK(tutti_publish_signal("x", 8, NULL, NULL, NULL, &region) == TUTTI_ERR_ARG);
    CHECK(pthread_create(&thread, NULL, beats, tutti_published_memory(&beat)) == 0);
    CHECK(tutti_publish_signal(name_of("signal"), 256, whom, handle, &taken, &message) == TUTTI_OK);
    puts("ready");
    fflush(stdout);
    while (!is_over)
        usleep(1000);
    CHECK(tutti_close(&message) == TUTTI_OK && tutti_close(&all) == TUTTI_OK);
    pthread_join(thread, NULL);
    MPI_Finalize();
    puts("server: ok");
    return 0;
}
