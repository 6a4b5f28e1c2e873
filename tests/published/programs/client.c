/* A client of server.c: `client SUBJECT [USER/]PREFIX[@NODE] [MORE]`. It is no rank of any job. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <tutti.h>
#include <unistd.h>

#define CHECK(holds)                                                              \
    do {                                                                          \
        if (!(holds)) {                                                           \
            fprintf(stderr, "client, line %d: expected %s\n", __LINE__, #holds); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

enum { BYTES = 1 << 20 };

static const char *prefix;
static const char *node; /* with its @; empty: this one */

static const char *name_of(const char *rest)
{
    static char name[256];
    snprintf(name, sizeof name, "%.*s-%s%s", (int)strcspn(prefix, "@"), prefix, rest, node);
    return name;
}

static int is_near(void)
{
    return *node == 0;
}

static tutti_region open_all_rights(const char *rest)
{
    tutti_region region;
    CHECK(tutti_open_published(name_of(rest), 0, &region, NULL) == TUTTI_OK);
    return region;
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

/* Every operation with every right, and without. */
static void rights(void)
{
    tutti_region region, part;
    size_t bytes = 0;
    int64_t number = 77, found = -1;
    static char data[BYTES], back[BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7 + i / 251);

    CHECK(tutti_open_published(name_of("all"), 0, &region, &bytes) == TUTTI_OK && bytes == BYTES);
    CHECK((tutti_published_memory(&region) != NULL) == is_near());
    CHECK(tutti_write(&region, 64, data, BYTES - 64, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_read(&region, 64, back, BYTES - 64, TUTTI_WAIT) == TUTTI_OK && memcmp(data, back, BYTES - 64) == 0);
    CHECK(tutti_write(&region, BYTES - 4, data, 8, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_read(&region, UINT64_MAX - 3, back, 8, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_fetch_add(&region, 1, 1, &found, TUTTI_WAIT) == TUTTI_ERR_ALIGN);
    CHECK(tutti_fetch_add(&region, BYTES, 1, &found, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_swap(&region, 16, 5, &found, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_compare_swap(&region, 16, 5, 6, &found, TUTTI_WAIT) == TUTTI_OK && found == 5);
    CHECK(tutti_wait_for(&region, 16, TUTTI_GE, 6) == TUTTI_OK);
    CHECK(tutti_wait_for(&region, 16, 9, 6) == TUTTI_ERR_ARG);
    CHECK(tutti_wait_for(&region, BYTES - 4, TUTTI_EQ, 6) == TUTTI_ERR_RANGE);
    CHECK(tutti_put(&region, data, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_alias(&region, 0, 8, TUTTI_READ, &part) != TUTTI_OK);
    tutti_done done = {0};
    CHECK(tutti_write(&region, 64, data, 8, &done) == TUTTI_OK && done.count == 1 && done.status == 0);
    CHECK(tutti_write(&region, BYTES, data, 8, &done) == TUTTI_OK && done.count == 2 && done.status == TUTTI_ERR_RANGE);

    /* Fewer rights than there are. */
    CHECK(tutti_open_published(name_of("all"), TUTTI_READ, &part, NULL) == TUTTI_OK);
    CHECK(tutti_write(&part, 64, data, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_fetch_add(&part, 64, 1, &found, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(!is_near() || (mprotect(tutti_published_memory(&part), BYTES, PROT_READ | PROT_WRITE) != 0 && errno == EACCES));
    CHECK(tutti_close(&part) == TUTTI_OK && tutti_close(&part) == TUTTI_ERR_REGION);
    CHECK(tutti_read(&part, 0, &found, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);

    /* One that may only be read. */
    CHECK(tutti_open_published(name_of("beat"), TUTTI_READ | TUTTI_WRITE, &part, NULL) == TUTTI_ERR_RIGHT);
    part = open_all_rights("beat");
    CHECK(tutti_read(&part, 0, &found, 8, TUTTI_WAIT) == TUTTI_OK && found >= 7);
    CHECK(tutti_write(&part, 0, data, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(!is_near() || mprotect(tutti_published_memory(&part), BYTES, PROT_READ | PROT_WRITE) != 0);
    CHECK(tutti_close(&part) == TUTTI_OK);

    /* One that may only be written, and is mapped nowhere. */
    part = open_all_rights("write");
    CHECK(tutti_published_memory(&part) == NULL);
    CHECK(tutti_write(&part, 64, data, BYTES - 64, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_write(&part, BYTES - 4, data, 8, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_read(&part, 64, back, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_fetch_add(&part, 64, 1, &found, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_wait_for(&part, 64, TUTTI_EQ, 0) == TUTTI_ERR_RIGHT);
    CHECK(tutti_close(&part) == TUTTI_OK);

    /* Atomic changes without writing. */
    part = open_all_rights("atomic");
    CHECK(tutti_write(&part, 64, data, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_swap(&part, 64, 5, &found, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_fetch_add(&part, 64, 2, &found, TUTTI_WAIT) == TUTTI_OK && found == 5);
    CHECK(tutti_compare_swap(&part, 64, 8, 9, &found, TUTTI_WAIT) == TUTTI_OK && found == 7);
    CHECK(tutti_fetch_add(&part, 1, 2, &found, TUTTI_WAIT) == TUTTI_ERR_ALIGN);
    CHECK(tutti_read(&part, 64, &found, 8, TUTTI_WAIT) == TUTTI_OK && found == 7);
    CHECK(tutti_close(&part) == TUTTI_OK);

    part = open_all_rights("signal");
    CHECK(tutti_read(&part, 0, &found, 8, TUTTI_WAIT) == TUTTI_ERR_RIGHT);
    CHECK(tutti_put(&part, data, 257, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_put(&part, data, 1 << 20, TUTTI_WAIT) == TUTTI_ERR_RANGE);
    CHECK(tutti_put(&part, "close", 5, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_close(&part) == TUTTI_OK);

    /* No such name; a handle that was made up. */
    CHECK(tutti_open_published(name_of("none"), 0, &part, NULL) == TUTTI_ERR_REGION);
    CHECK(tutti_open_published("no-such-user-here/x", 0, &part, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_open_published(NULL, 0, &part, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_open_published(name_of("all"), 16, &part, NULL) == TUTTI_ERR_RIGHT);
    part = region;
    part.words[1] += 1;
    CHECK(tutti_write(&part, 0, &number, 8, TUTTI_WAIT) == TUTTI_ERR_REGION);
    part.words[5] += 1;
    CHECK(tutti_published_memory(&part) == NULL && tutti_changed(&part) == TUTTI_ERR_REGION);
    CHECK(tutti_close(&region) == TUTTI_OK);
}

/* Operations by all ways, so many of each; the memory is as they say. */
static void work(int count)
{
    int64_t found, before = 0;
    tutti_region all = open_all_rights("all"), atomics = open_all_rights("atomic"), writes = open_all_rights("write");
    CHECK(tutti_read(&all, 24, &before, 8, TUTTI_WAIT) == TUTTI_OK);
    for (int64_t i = 0; i < count; i++) {
        CHECK(tutti_fetch_add(&all, 24, 1, &found, TUTTI_WAIT) == TUTTI_OK && found >= before + i);
        CHECK(tutti_fetch_add(&atomics, 24, 1, &found, TUTTI_WAIT) == TUTTI_OK && found >= i);
        CHECK(tutti_write(&writes, 24, &i, 8, TUTTI_WAIT) == TUTTI_OK);
        CHECK(tutti_read(&all, 24, &found, 8, TUTTI_WAIT) == TUTTI_OK && found >= before + i + 1);
    }
}

/* While the owner is frozen: all but messages is done, and these are there when it goes on. */
static void frozen(void)
{
    int64_t one, other, handled, found;
    tutti_region beat = open_all_rights("beat"), all = open_all_rights("all"), message = open_all_rights("signal");
    const struct timespec pause = {0, 100000000};
    CHECK(tutti_read(&beat, 0, &other, 8, TUTTI_WAIT) == TUTTI_OK);
    do {
        one = other;
        nanosleep(&pause, NULL);
        CHECK(tutti_read(&beat, 0, &other, 8, TUTTI_WAIT) == TUTTI_OK);
    } while (one != other);
    CHECK(tutti_read(&all, 8, &handled, 8, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_wait_for(&all, 8, TUTTI_EQ, handled) == TUTTI_OK);
    work(1000);
    int sent = 0, status;
    while ((status = tutti_put(&message, "0123456789abcdef", 16, TUTTI_WAIT)) == TUTTI_OK)
        sent++;
    /* There is room for so many. */
    CHECK(status == TUTTI_ERR_FULL && sent == 16);
    nanosleep(&pause, NULL);
    CHECK(tutti_read(&all, 8, &found, 8, TUTTI_WAIT) == TUTTI_OK && found == handled);
    CHECK(tutti_read(&beat, 0, &other, 8, TUTTI_WAIT) == TUTTI_OK && one == other);
    say("frozen");
    /* This thread sleeps until the owner goes on. */
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    CHECK(tutti_wait_for(&all, 8, TUTTI_GE, handled + sent) == TUTTI_OK);
    getrusage(RUSAGE_SELF, &after);
    long us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000L +
              after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    printf("waited with %ld us of CPU time, %ld switches\n", us, after.ru_nvcsw - before.ru_nvcsw);
    CHECK(after.ru_nvcsw - before.ru_nvcsw <= 4);
    CHECK(tutti_put(&message, "", 0, TUTTI_WAIT) == TUTTI_OK);
}

/* Goes on until an operation by each way is refused with this status. */
static void until(int status, int with_wait)
{
    int64_t found;
    int last;
    tutti_region all = open_all_rights("all"), part;
    tutti_region message = open_all_rights("signal");
    CHECK(tutti_open_published(name_of("all"), TUTTI_READ | TUTTI_ATOMIC, &part, NULL) == TUTTI_OK);
    say("open");
    if (with_wait)
        CHECK(tutti_wait_for(&all, 512, TUTTI_EQ, -1) == status);
    while ((last = tutti_fetch_add(&all, 520, 1, &found, TUTTI_WAIT)) == TUTTI_OK)
        ;
    CHECK(last == status);
    while ((last = tutti_fetch_add(&part, 520, 1, &found, TUTTI_WAIT)) == TUTTI_OK)
        ;
    CHECK(last == status);
    CHECK(tutti_read(&part, 0, &found, 8, TUTTI_WAIT) == status);
    CHECK(tutti_write(&all, 0, &found, 8, TUTTI_WAIT) == status);
    CHECK(tutti_wait_for(&all, 512, TUTTI_EQ, -1) == status);
    CHECK(tutti_changed(&all) == status);
    if (status == TUTTI_ERR_GONE) {
        CHECK(tutti_put(&message, "x", 1, TUTTI_WAIT) == status);
        /* Nor is it there; a node that is lost cannot even say that. */
        last = tutti_open_published(name_of("all"), 0, &part, NULL);
        CHECK(last == TUTTI_ERR_REGION || (!is_near() && last == TUTTI_ERR_NODE));
    } else {
        /* What was opened anew is another region. */
        int tries = 0;
        while (tutti_open_published(name_of("all"), 0, &part, NULL) == TUTTI_ERR_REGION && ++tries < 60000)
            usleep(1000);
        CHECK(tutti_read(&part, 520, &found, 8, TUTTI_WAIT) == TUTTI_OK && found == 0);
        CHECK(tutti_read(&all, 520, &found, 8, TUTTI_WAIT) == status);
    }
}

/* What a process could do with the descriptor itself: it cannot write, or shorten the memory. */
static void attack(unsigned uid, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "tutti-region/%u/%s-beat", uid, name);
    int door = socket(AF_UNIX, SOCK_SEQPACKET, 0), memory;
    CHECK(connect(door, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
    uint32_t ask[8] = {32, 1};
    CHECK(send(door, ask, sizeof ask, 0) == sizeof ask);
    char bytes[64], path[64];
    union {
        char room[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(door, &header, 0) == 16 + 24 && CMSG_FIRSTHDR(&header) != NULL);
    memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof memory);
    CHECK(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) == MAP_FAILED);
    CHECK(ftruncate(memory, 0) != 0 && write(memory, "x", 1) < 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    int again = open(path, O_RDWR);
    CHECK(again >= 0 || errno == EACCES);
    if (again >= 0) {
        CHECK(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
        CHECK(ftruncate(again, 0) != 0 && write(again, "x", 1) < 0);
    }
}

/* Threads wait, and others work on the same region meanwhile, also by questions to its server. */
static tutti_region shared;

static void *waits(void *result)
{
    *(int *)result = tutti_wait_for(&shared, 1024, TUTTI_EQ, 7);
    return NULL;
}

static void *waits_too(void *result)
{
    *(int *)result = tutti_wait_for(&shared, 1032, TUTTI_EQ, 7);
    return NULL;
}

static void threads(int rights)
{
    pthread_t thread, other;
    int64_t found = 0, zeros[2] = {0};
    int result = 1, result_too = 1;
    tutti_region all = open_all_rights("all");
    CHECK(tutti_write(&all, 1024, zeros, sizeof zeros, TUTTI_WAIT) == TUTTI_OK);
    CHECK(tutti_close(&all) == TUTTI_OK);
    CHECK(tutti_open_published(name_of("all"), rights, &shared, NULL) == TUTTI_OK);
    CHECK(pthread_create(&thread, NULL, waits, &result) == 0);
    CHECK(pthread_create(&other, NULL, waits_too, &result_too) == 0);
    for (int i = 0; i < 7; i++)
        CHECK(tutti_fetch_add(&shared, 1032, 1, &found, TUTTI_WAIT) == TUTTI_OK && found == i);
    CHECK(pthread_join(other, NULL) == 0 && result_too == TUTTI_OK);
    for (int i = 0; i < 7; i++)
        CHECK(tutti_fetch_add(&shared, 1024, 1, &found, TUTTI_WAIT) == TUTTI_OK && found == i);
    CHECK(pthread_join(thread, NULL) == 0 && result == TUTTI_OK);
    CHECK(tutti_close(&shared) == TUTTI_OK);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    const char *subject = argv[1], *more = argc > 3 ? argv[3] : "";
    tutti_region region;
    prefix = argv[2];
    node = prefix + strcspn(prefix, "@");
    if (strcmp(subject, "rights") == 0) {
        rights();
    } else if (strcmp(subject, "work") == 0) {
        work(atoi(more));
    } else if (strcmp(subject, "frozen") == 0) {
        frozen();
    } else if (strcmp(subject, "stale") == 0) {
        until(TUTTI_ERR_REGION, *more);
    } else if (strcmp(subject, "gone") == 0) {
        until(TUTTI_ERR_GONE, *more);
    } else if (strcmp(subject, "refused") == 0) {
        CHECK(tutti_open_published(name_of(more), 0, &region, NULL) == TUTTI_ERR_RIGHT);
    } else if (strcmp(subject, "threads") == 0) {
        threads(0);
        threads(TUTTI_READ | TUTTI_ATOMIC);
    } else if (strcmp(subject, "status") == 0) {
        /* What opening a region gives, as a number. */
        int status = tutti_open_published(name_of("all"), 0, &region, NULL);
        printf("status %d\n", status);
    } else if (strcmp(subject, "attack") == 0) {
        attack((unsigned)atoi(more), prefix);
    } else if (strcmp(subject, "send") == 0) {
        region = open_all_rights("signal");
        CHECK(tutti_put(&region, more, strlen(more), TUTTI_WAIT) == TUTTI_OK);
    } else {
        CHECK(!"a known subject");
    }
    printf("%s: ok\n", subject);
    return 0;
}
