/* Tasks of unequal length, which ranks take from a common counter in the memory of rank 0 (MPI_Fetch_and_op): who is ready
 * earlier takes more, and rank 0 serves nobody. A task counts the primes in a range of numbers. Each says in a second window
 * that it has been done, so that rank 0 can see that all were done once.
 * Usage: mpiexec -n 4 workqueue [TASKS [NUMBERS IN EACH]] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long primes(long first, long behind)
{
    long count = 0;
    for (long number = first; number < behind; number++) {
        int is_prime = number > 1;
        for (long divisor = 2; is_prime && divisor * divisor <= number; divisor++)
            is_prime = number % divisor != 0;
        count += is_prime;
    }
    return count;
}

int main(int argc, char **argv)
{
    long tasks = argc > 1 ? atol(argv[1]) : 200, numbers = argc > 2 ? atol(argv[2]) : 500, one = 1;
    MPI_Init(&argc, &argv);
    int me, n;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (tasks < 1 || numbers < 1 || tasks > 100000 || numbers > 100000) {
        if (me == 0)
            fprintf(stderr, "usage: workqueue [TASKS 1..100000 [NUMBERS 1..100000]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    /* At rank 0: the next task, and how often each task was done. */
    long *memory;
    MPI_Win window;
    MPI_Aint bytes = me == 0 ? (MPI_Aint)((size_t)(tasks + 1) * sizeof(long)) : 0;
    MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (me == 0)
        for (long i = 0; i <= tasks; i++)
            memory[i] = 0;
    MPI_Barrier(MPI_COMM_WORLD);

    long own = 0, taken = 0, task;
    MPI_Win_lock_all(0, window);
    for (;;) {
        MPI_Fetch_and_op(&one, &task, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        if (task >= tasks)
            break;
        own += primes(task * numbers, (task + 1) * numbers);
        taken++;
        MPI_Accumulate(&one, 1, MPI_LONG, 0, task + 1, 1, MPI_LONG, MPI_SUM, window);
    }
    MPI_Win_unlock_all(window);

    long sums[2] = {own, taken}, all[2], most;
    MPI_Reduce(sums, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&taken, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    int wrong = 0;
    if (me == 0) {
        wrong = all[1] != tasks || all[0] != primes(0, tasks * numbers);
        for (long i = 0; i < tasks; i++)
            wrong |= memory[i + 1] != 1;
        printf("workqueue: %ld primes, %ld tasks, %d ranks, at most %ld a rank: %s\n", all[0], tasks, n, most,
               wrong ? "WRONG" : "verified");
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return wrong;
}
