/* A program that prints and then ends: endings WAY ENDER STEPS... (the steps of rank 0, 1, ...). WAY is one of the twelve ways
 * of tests/launch/endings.rs. All ranks take their steps and meet; then rank ENDER ends so, and the others wait for ever, or
 * all end where the way is a good one. A step is a letter and a number:
 *   p7  a line through stdio      w7  a line by write(2), what stdio holds before it      e7  a line on stderr
 *   l7  a long line through stdio f0  flush      c7  a child process writes the line
 * Every line names its rank and number; a long one has 5,000 more characters. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank;

static void write_line(int number)
{
    char line[64];
    int bytes = snprintf(line, sizeof line, "r%d %d\n", rank, number);
    for (int done = 0; done < bytes;) {
        ssize_t wrote = write(1, line + done, (size_t)(bytes - done));
        if (wrote <= 0)
            _exit(99);
        done += (int)wrote;
    }
}

static void take(char kind, int number)
{
    static char filling[5001];
    pid_t child;
    switch (kind) {
    case 'p':
        printf("r%d %d\n", rank, number);
        break;
    case 'l':
        memset(filling, 'x', sizeof filling - 1);
        printf("r%d %d%s\n", rank, number, filling);
        break;
    case 'e':
        fprintf(stderr, "r%d %d\n", rank, number);
        break;
    case 'f':
        fflush(stdout);
        break;
    case 'w':
        fflush(stdout);
        write_line(number);
        break;
    case 'c':
        fflush(stdout);
        child = fork();
        if (child == 0) {
            write_line(number);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        break;
    default:
        _exit(98);
    }
}

/* From here on what the rank writes goes through a program that is not the rank. */
static void filter(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        _exit(97);
    if (fork() == 0) {
        dup2(ends[0], 0);
        close(ends[0]);
        close(ends[1]);
        execlp("cat", "cat", (char *)NULL);
        _exit(96);
    }
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
}

static void *exit_in_thread(void *none)
{
    (void)none;
    exit(7);
}

static int end_by(const char *way)
{
    pthread_t thread;
    if (strcmp(way, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (strcmp(way, "error") == 0)
        MPI_Send(NULL, 0, MPI_INT, 12345, 0, MPI_COMM_WORLD);
    if (strcmp(way, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(way, "term") == 0)
        raise(SIGTERM);
    if (strcmp(way, "abort3") == 0)
        abort();
    if (strcmp(way, "_exit") == 0)
        _exit(6);
    if (strcmp(way, "unfinalized") == 0)
        exit(4);
    if (strcmp(way, "thread") == 0 && pthread_create(&thread, NULL, exit_in_thread, NULL) == 0)
        pthread_join(thread, NULL);
    MPI_Finalize();
    if (strcmp(way, "exec") == 0)
        execlp("true", "true", (char *)NULL);
    if (strcmp(way, "exit") == 0)
        exit(0);
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *way = argv[1];
    int ender = atoi(argv[2]);
    if (strcmp(way, "filter") == 0)
        filter();
    for (char *step = strtok(argv[3 + rank], ","); step != NULL; step = strtok(NULL, ","))
        take(step[0], atoi(step + 1));
    int is_good = strcmp(way, "return") == 0 || strcmp(way, "exit") == 0 || strcmp(way, "exec") == 0 || strcmp(way, "filter") == 0;
    /* What the others have printed is theirs alone: it is out before one of them ends the job. */
    if (!is_good && rank != ender)
        fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_good || rank == ender)
        return end_by(way);
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
