/* Calls of the system, and of the C library, that load more shared memory than a rank may have copies of. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define NAME "/tmp/tutti-limited-%ld-%d"
static long parent;

#define BYTES (4 << 20)
#define PAGE 4096
/* The first half leads to files, the other to names that they get. */
#define NAMES 64

struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long wrong;
    char text[BYTES];
    char names[NAMES][PAGE];
};

static struct shared *all;
static tutti_pages large = {.bytes = BYTES};

static char letter(long at) {
    return (char)('a' + (at * 7 + at / 4096) % 26);
}

static void check(int file, const char *what) {
    char buffer[4096];
    long at = 0, wrong = 0;
    lseek(file, 0, SEEK_SET);
    for (ssize_t bytes; (bytes = read(file, buffer, sizeof buffer)) > 0; at += bytes)
        for (ssize_t k = 0; k < bytes; k++)
            wrong += buffer[k] != letter(at + k);
    if (at != BYTES - 1 || wrong > 0) {
        printf("limited: %s: %ld bytes, %ld wrong\n", what, at, wrong);
        all->wrong++;
    }
    if (ftruncate(file, 0) != 0)
        perror("ftruncate");
    lseek(file, 0, SEEK_SET);
}

/* Loads of text, which make pages that were loaded before the oldest. */
static long load(int pages) {
    long sum = 0;
    for (int page = 0; page < pages; page++)
        sum += *(volatile char *)&all->text[(long)page * 5 * PAGE % BYTES];
    return sum;
}

/* A name that has been here longest, and one that is not here. */
static void rename_far(void) {
    char from[64], to[64];
    for (int number = 0; number < NAMES / 2; number += 8) {
        snprintf(from, sizeof from, NAME, parent, number);
        snprintf(to, sizeof to, NAME, parent, number + NAMES / 2);
        for (int pages = 56; pages < 136; pages++) {
            load(256);
            FILE *file = fopen(from, "w");
            if (file == NULL || fclose(file) != 0)
                perror("fopen");
            *(volatile char *)all->names[number];
            load(pages);
            if (rename(all->names[number], all->names[number + NAMES / 2]) != 0) {
                perror("rename");
                all->wrong++;
                unlink(from);
            }
            unlink(to);
        }
    }
}

/* A call from the middle of a large page on, which comes as a whole. */
static void write_large(int file) {
    const char *from = (char *)large.start + BYTES / 8;
    char buffer[PAGE];
    long at = 0;
    if (write(file, from, BYTES / 2) != BYTES / 2)
        perror("write of large pages");
    lseek(file, 0, SEEK_SET);
    for (; read(file, buffer, PAGE) == PAGE; at += PAGE)
        for (int k = 0; k < PAGE; k++)
            all->wrong += buffer[k] != letter(BYTES / 8 + at + k);
    if (at != BYTES / 2 || ftruncate(file, 0) != 0)
        all->wrong++;
    lseek(file, 0, SEEK_SET);
}

static void run(void) {
    int me, file = memfd_create("limited", 0);
    struct iovec pieces[] = {{all->text, BYTES / 2}, {all->text + BYTES / 2, BYTES / 2 - 1}};
    FILE *stream = fdopen(dup(file), "w");
    GET_PID(me)
    if (me == 0)
        for (long at = 0; at < BYTES - 1; at++)
            all->text[at] = letter(at);
    if (me == 0)
        for (long at = 0; at < BYTES; at++)
            ((char *)large.start)[at] = letter(at);
    if (me == 0)
        for (int number = 0; number < NAMES; number++)
            snprintf(all->names[number], PAGE, NAME, parent, number);
    BARRIER(all->barrier, 2);
    if (me == 1) {
        rename_far();
        write_large(file);
        if (write(file, all->text, BYTES - 1) != BYTES - 1)
            perror("write");
        check(file, "write");
        if (writev(file, pieces, 2) != BYTES - 1)
            perror("writev");
        check(file, "writev");
        if (fputs(all->text, stream) < 0 || fflush(stream) != 0)
            perror("fputs");
        check(file, "fputs");
    }
    BARRIER(all->barrier, 2);
    fclose(stream);
    close(file);
}

int main(void) {
    all = G_MALLOC(sizeof *all);
    G_PAGES(TUTTI_PAGES_ALLOCATE, &large, 1, TUTTI_PAGES_2M);
    /* The same on all ranks. */
    parent = getpid();
    all->wrong = 0;
    LOCKINIT(all->lock);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("limited: %ld wrong\n", all->wrong);
    MAIN_END;
}
