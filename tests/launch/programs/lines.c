/* A rank that prints lines: lines waits|early|own|exec.
 * waits: prints a line behind MPI_Init and ends when its standard input does   early: the same, with a line before MPI_Init
 * own: gives standard output a buffer of its own, prints a line and ends without writing it out
 * exec: the same, but goes on as another program behind MPI_Finalize */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char buffer[1 << 16];
    if (strcmp(argv[1], "own") == 0 || strcmp(argv[1], "exec") == 0)
        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    if (strcmp(argv[1], "early") == 0)
        printf("before\n");
    MPI_Init(&argc, &argv);
    for (const char *letter = "here\n"; *letter != '\0'; letter++)
        putchar(*letter);
    if (strcmp(argv[1], "own") == 0)
        _exit(0);
    while (getchar() != EOF)
        ;
    MPI_Finalize();
    if (strcmp(argv[1], "exec") == 0)
        execlp("true", "true", (char *)NULL);
    return 0;
}
