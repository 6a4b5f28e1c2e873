/* What the conformance programs share: a check that says rank, place and what was expected, and the end of a program.
 *
 * A program calls CHECK for every promise and ends with `return finish("name");`, which sums up the failures of all ranks: rank 0
 * prints "name: ok" only when there is none. The same source runs on every MPI. */
#ifndef TUTTI_CHECK_H
#define TUTTI_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static inline void check(int holds, const char *what, int line)
{
    int rank = -1;
    if (holds)
        return;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "rank %d, line %d: expected %s\n", rank, line, what);
    failures++;
}

#define CHECK(holds) check((holds) ? 1 : 0, #holds, __LINE__)

/* The class of an error code. */
static inline int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* Whether this is our library: some promises of ours go beyond the standard, or beyond what others keep of it. */
static inline int is_tutti(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    return MPI_Get_library_version(version, &length) == MPI_SUCCESS && strncmp(version, "Tutti", 5) == 0;
}

/* Point-to-point only, so that it works where collectives are what is tested. */
static inline int finish(const char *name)
{
    int rank, size, other;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        for (int i = 1; i < size; i++) {
            MPI_Recv(&other, 1, MPI_INT, i, 4711, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            failures += other;
        }
        if (failures == 0)
            printf("%s: ok\n", name);
        else
            printf("%s: %d failures\n", name, failures);
        fflush(stdout);
    } else {
        MPI_Send(&failures, 1, MPI_INT, 0, 4711, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return failures != 0;
}

#endif
