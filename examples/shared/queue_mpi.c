/* The tasks of queue.c, by messages: rank 0 has the queue, and gives a task to each rank that asks. A rank asks by sending
 * what it has found. Alone, rank 0 does all of them itself. At the end it computes each result again.
 *
 *     mpicc -O2 -o queue_mpi queue_mpi.c
 *     mpiexec -n 4 ./queue_mpi 200                # tasks at first */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASK, TASK };

/* Numbers that wait, the newest last. */
static long *waiting, waiting_count;
static unsigned char *results;
static long count = 200, tasks, done, total;

/* Steps of a number to 1, by halves and by three times and one. */
static long steps(long number) {
    long found = 0;
    for (; number != 1; found++)
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    return found;
}

static void add(long number) {
    waiting[waiting_count++] = number;
    tasks++;
}

/* The next task, which may add another; 0: none. */
static long take(void) {
    if (waiting_count == 0)
        return 0;
    long number = waiting[--waiting_count];
    if (number <= count / 2)
        add(number + count);
    return number;
}

static void keep(long number, long found) {
    results[number] = (unsigned char)found;
    total += found;
    done++;
}

/* All tasks go to the others. A rank that asks when there is none is at its end: one that is computed adds no other. */
static void give(int others) {
    while (others > 0) {
        long found[2], next;
        MPI_Status status;
        MPI_Recv(found, 2, MPI_LONG, MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &status);
        if (found[0] != 0)
            keep(found[0], found[1]);
        next = take();
        others -= next == 0;
        MPI_Send(&next, 1, MPI_LONG, status.MPI_SOURCE, TASK, MPI_COMM_WORLD);
    }
}

static void work(void) {
    long found[2] = {0, 0};
    do {
        MPI_Send(found, 2, MPI_LONG, 0, ASK, MPI_COMM_WORLD);
        MPI_Recv(&found[0], 1, MPI_LONG, 0, TASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        found[1] = found[0] != 0 ? steps(found[0] + 1) : 0;
    } while (found[0] != 0);
}

/* How many results are not what they have to be. */
static long wrong_results(void) {
    long wrong = done != tasks;
    for (long number = 0; number < 2 * count + 2; number++) {
        int is_task = number >= 1 && number <= count + count / 2;
        wrong += results[number] != (is_task ? (unsigned char)steps(number + 1) : 0);
    }
    return wrong;
}

int main(int argc, char **argv) {
    int me, processes, status = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (argc > 1)
        count = atol(argv[1]);
    if (count < 1) {
        if (me == 0)
            fprintf(stderr, "usage: queue_mpi TASKS\n");
        MPI_Finalize();
        return 2;
    }
    waiting = malloc((size_t)(2 * count) * sizeof *waiting);
    results = calloc((size_t)(2 * count) + 2, 1);
    if (waiting == NULL || results == NULL) {
        fprintf(stderr, "queue: no memory for %ld tasks\n", count);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (long number = 1; number <= count; number++)
        add(number);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (me != 0)
        work();
    else if (processes > 1)
        give(processes - 1);
    else
        for (long number; (number = take()) != 0;)
            keep(number, steps(number + 1));
    MPI_Barrier(MPI_COMM_WORLD);
    double end = MPI_Wtime();
    if (me == 0) {
        unsigned long digest = 14695981039346656037ul;
        for (long number = 0; number < 2 * count + 2; number++)
            digest = (digest ^ results[number]) * 1099511628211ul;
        printf("queue: %ld tasks, %d processes, %ld steps: %016lx\n", done, processes, total, digest);
        fprintf(stderr, "queue: %.0f us\n", (end - begin) * 1e6);
        long wrong = wrong_results();
        if (wrong > 0) {
            printf("queue: %ld results are wrong\n", wrong);
            status = 1;
        }
    }
    free(waiting);
    free(results);
    MPI_Finalize();
    return status;
}
