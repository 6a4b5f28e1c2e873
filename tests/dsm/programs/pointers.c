/* Pointers that processes hand each other through shared memory: to functions, to variables and words of C that nobody
 * changes, and to shared memory by each of its macros. The argument is the number of processes. */
#include <stdio.h>
#include <string.h>
#include <tutti/parmacs.h>

MAIN_ENV

struct shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long next, sum, wrong;
    long (*function)(long);
    const long *table;
    const char *word;
    long *block;
};

static const long squares[] = {1, 4, 9, 16};
static struct shared *all;
static long *near, processes;

static long twice(long value) {
    return 2 * value;
}

static void run(void) {
    long me;
    LOCK(all->lock);
    me = all->next++;
    UNLOCK(all->lock);
    if (me == 0) {
        all->function = twice;
        all->table = squares;
        all->word = "a word";
        all->block = NU_MALLOC(64, 1);
        all->block[3] = 5;
        near[1] = 7;
    }
    BARRIER(all->barrier, processes);
    LOCK(all->lock);
    all->sum += all->function(all->table[me % 4]);
    all->wrong += strcmp(all->word, "a word") != 0 || all->block[3] != 5 || near[1] != 7;
    UNLOCK(all->lock);
    BARRIER(all->barrier, processes);
    if (me == processes - 1) {
        NU_FREE(all->block);
        free(near);
    }
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    processes = atol(argv[1]);
    all = (struct shared *)G_MALLOC_F(sizeof *all);
    all->next = all->sum = all->wrong = 0;
    near = NU_MALLOC(2 * sizeof *near, 0);
    LOCKINIT(all->lock);
    BARINIT(all->barrier, processes);
    CREATE(run, processes);
    WAIT_FOR_END(processes);
    printf("pointers: %ld processes, sum %ld, %ld wrong\n", all->next, all->sum, all->wrong);
    MAIN_END;
}
