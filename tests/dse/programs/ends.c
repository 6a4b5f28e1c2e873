/* Elements that end in other ways than by tutti_dse_finish: compute or program (until killed), leave, refused; and a child of
 * an element, which is none. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <tutti_dse.h>
#include <unistd.h>

int main(int count, char **words)
{
    if (count != 2)
        return 2;
    if (strcmp(words[1], "refused") == 0) {
        MPI_Init(NULL, NULL);
        int code = tutti_dse_init(100);
        printf("%d: %s\n", code, tutti_dse_text());
        MPI_Finalize();
        return code == TUTTI_DSE_OK;
    }
    if (tutti_dse_init(100))
        return 3;
    if (strcmp(words[1], "leave") == 0)
        return 0;
    if (strcmp(words[1], "child") == 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(tutti_dse_write(0, 0, "x", 1) == TUTTI_DSE_NOT_RUNNING ? 7 : 8);
        int status = 0;
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
        return tutti_dse_finish();
    }
    tutti_dse_barrier();
    const char *sleeps[] = {"sleep", "1000", NULL};
    if (strcmp(words[1], "program") == 0 && tutti_dse_element() == 1)
        return tutti_dse_serve();
    if (strcmp(words[1], "program") == 0 && tutti_dse_start_program(1, sleeps))
        return 4;
    puts("computes");
    fflush(stdout);
    for (;;)
        pause();
}
