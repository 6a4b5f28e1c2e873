/* What main gets from outside before CREATE is the same on all ranks, and what it prints comes once. The first argument is a
 * file to read, the second one to write. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tutti/parmacs.h>

MAIN_ENV

#define PROCESSES 2

struct shared {
    LOCKDEC(lock)
    long next, wrong;
    long times[2];
    char input[2][64], file[64];
};

static struct shared *all;
/* What this process has seen before CREATE, in its private memory. */
static long times[2];
static char input[2][64], file[64];
static int missing;

static void run(void) {
    LOCK(all->lock);
    all->next++;
    all->wrong += memcmp(times, all->times, sizeof times) != 0;
    all->wrong += memcmp(input, all->input, sizeof input) != 0;
    all->wrong += memcmp(file, all->file, sizeof file) != 0;
    all->wrong += missing != ENOENT;
    UNLOCK(all->lock);
    printf("a process\n");
}

int main(int argc, char **argv) {
    FILE *stream;
    if (argc < 3)
        return 2;
    printf("before\n");
    times[0] = (long)time(NULL);
    times[1] = (long)getpid();
    if (fgets(input[0], sizeof input[0], stdin) == NULL || scanf("%63s", input[1]) != 1)
        return 3;
    stream = fopen(argv[1], "r");
    if (stream == NULL || fgets(file, sizeof file, stream) == NULL)
        return 4;
    fclose(stream);
    errno = 0;
    missing = fopen("/nowhere/at/all", "r") == NULL ? errno : 0;
    stream = fopen(argv[2], "a");
    fprintf(stream, "once\n");
    fclose(stream);
    all = G_MALLOC(sizeof *all);
    all->next = all->wrong = 0;
    memcpy(all->times, times, sizeof times);
    memcpy(all->input, input, sizeof input);
    memcpy(all->file, file, sizeof file);
    LOCKINIT(all->lock);
    CREATE(run, PROCESSES);
    WAIT_FOR_END(PROCESSES);
    printf("replay: %ld processes, %ld wrong: %s%s %s", all->next, all->wrong, input[0], input[1], file);
    MAIN_END;
}
