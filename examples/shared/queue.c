/* A queue of tasks under a lock: each process takes the next task until there is none. A task may add others. The results
 * lie side by side, so that several processes write to one page; a second lock guards their sum, which is kept in memory
 * that a process takes and gives back.
 *
 *     tutticc -O2 -o queue queue.c
 *     tutti run -N 4 -n 4 ./queue 200 4           # tasks at first, processes */
#include <stdio.h>
#include <tutti/parmacs.h>

MAIN_ENV

struct task {
    long number;
    struct task *next;
};

struct shared {
    LOCKDEC(queue)
    LOCKDEC(sum)
    LOCKDEC(names)
    long next_name, tasks, done, total;
    struct task *first;
    unsigned char *results;
};

static struct shared *all;
static long count = 200, processes = 1;

/* Steps of a number to 1, by halves and by three times and one. */
static long steps(long number) {
    long found = 0;
    for (; number != 1; found++)
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    return found;
}

/* Adds a task; the caller has the lock of the queue. */
static void add(long number) {
    struct task *task = G_MALLOC(sizeof *task);
    task->number = number;
    task->next = all->first;
    all->first = task;
    all->tasks++;
}

static void run(void) {
    long own = 0, is_over = 0;
    LOCK(all->names);
    all->next_name++;
    UNLOCK(all->names);
    while (!is_over) {
        struct task *task;
        LOCK(all->queue);
        task = all->first;
        if (task != NULL) {
            all->first = task->next;
            if (task->number <= count / 2)
                add(task->number + count);
        }
        is_over = all->done == all->tasks;
        UNLOCK(all->queue);
        if (task != NULL) {
            long number = task->number, found = steps(number + 1);
            G_FREE(task);
            all->results[number] = (unsigned char)found;
            own += found;
            LOCK(all->queue);
            all->done++;
            UNLOCK(all->queue);
        }
    }
    LOCK(all->sum);
    all->total += own;
    UNLOCK(all->sum);
}

int main(int argc, char **argv) {
    unsigned long begin, end, digest = 14695981039346656037ul;
    if (argc > 1)
        count = atol(argv[1]);
    if (argc > 2)
        processes = atol(argv[2]);
    if (count < 1 || processes < 1) {
        fprintf(stderr, "usage: queue TASKS PROCESSES\n");
        return 2;
    }
    MAIN_INITENV();
    all = G_MALLOC(sizeof *all);
    all->results = G_MALLOC((size_t)(2 * count) + 2);
    all->next_name = all->tasks = all->done = all->total = 0;
    all->first = NULL;
    LOCKINIT(all->queue);
    LOCKINIT(all->sum);
    LOCKINIT(all->names);
    for (long number = 1; number <= count; number++)
        add(number);
    CLOCK(begin);
    CREATE(run, processes);
    WAIT_FOR_END(processes);
    CLOCK(end);
    for (long number = 0; number < 2 * count + 2; number++)
        digest = (digest ^ all->results[number]) * 1099511628211ul;
    printf("queue: %ld tasks, %ld processes, %ld steps: %016lx\n", all->done, all->next_name, all->total, digest);
    fprintf(stderr, "queue: %lu us\n", end - begin);
    MAIN_END;
}
