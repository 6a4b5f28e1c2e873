/* A condition that does not hold ends the job, with a line that names it. */
#include <mpi.h>
#include <stdio.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: expected %s\n", __LINE__, #condition);                                 \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                                    \
        }                                                                                                    \
    } while (0)
