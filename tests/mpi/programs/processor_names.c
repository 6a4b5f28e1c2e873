/* As many names of nodes as nodes: ranks have the same name exactly when they share memory. */
#include "check.h"

enum { RANKS_MAX = 64 };

int main(int argc, char **argv)
{
    static char names[RANKS_MAX][MPI_MAX_PROCESSOR_NAME];
    char mine[MPI_MAX_PROCESSOR_NAME] = "";
    int rank, size, length, shared, same = 0, different = 0;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(mine, &length);
    CHECK((int)strlen(mine) == length && length > 0 && size <= RANKS_MAX);
    MPI_Allgather(mine, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, MPI_COMM_WORLD);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &shared);
    for (int i = 0; i < size; i++) {
        int first = 1;
        same += strcmp(names[i], mine) == 0;
        for (int j = 0; j < i; j++)
            first = first && strcmp(names[i], names[j]) != 0;
        different += first;
    }
    CHECK(same == shared);
    if (rank == 0)
        printf("%d names\n", different);
    MPI_Comm_free(&node);
    return finish("processor_names");
}
