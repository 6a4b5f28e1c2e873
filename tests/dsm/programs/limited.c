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

#define BYTES (4 << 20)

struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long wrong;
    char text[BYTES];
};

static struct shared *all;

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

static void run(void) {
    int me, file = memfd_create("limited", 0);
    struct iovec pieces[] = {{all->text, BYTES / 2}, {all->text + BYTES / 2, BYTES / 2 - 1}};
    FILE *stream = fdopen(dup(file), "w");
    GET_PID(me)
    if (me == 0)
        for (long at = 0; at < BYTES - 1; at++)
            all->text[at] = letter(at);
    BARRIER(all->barrier, 2);
    if (me == 1) {
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
    all->wrong = 0;
    LOCKINIT(all->lock);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("limited: %ld wrong\n", all->wrong);
    MAIN_END;
}
