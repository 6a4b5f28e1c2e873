/* Elements that end in other ways than by tutti_dse_finish: compute (until killed), leave, refused. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
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
    tutti_dse_barrier();
    puts("computes");
    fflush(stdout);
    for (;;)
        pause();
}
