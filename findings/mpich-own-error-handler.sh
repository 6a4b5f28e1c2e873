#!/bin/bash
# MPI_Comm_create_errhandler: the second argument of the handler is the code that the MPI call will return. In MPICH 5.0.2 the
# handler is given the code, and the call then returns MPI_SUCCESS, so a program whose handler only takes a note goes on as if
# the message had been sent. With MPI_ERRORS_RETURN the code is returned. MPICH 4.2.3 returns it in both cases.
# Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >handler.c <<'C'
#include <mpi.h>
#include <stdio.h>
static int given;
static void note(MPI_Comm *comm, int *code, ...)
{
    (void)comm, MPI_Error_class(*code, &given);
}
static const char *name(int class)
{
    return class == MPI_ERR_RANK ? "MPI_ERR_RANK" : class == MPI_SUCCESS ? "MPI_SUCCESS" : "another class";
}
int main(int argc, char **argv)
{
    int number = 1, returned;
    MPI_Errhandler own;
    MPI_Comm alone;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_SELF, &alone);
    MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Send(&number, 1, MPI_INT, 9, 0, alone), &returned);
    printf("MPI_ERRORS_RETURN: returned %s; ", name(returned));
    MPI_Comm_create_errhandler(note, &own);
    MPI_Comm_set_errhandler(alone, own);
    MPI_Error_class(MPI_Send(&number, 1, MPI_INT, 9, 0, alone), &returned);
    printf("own handler: given %s, returned %s\n", name(given), name(returned));
    MPI_Comm_free(&alone);
    MPI_Finalize();
    return 0;
}
C
for version in 4.2.3 5.0.2; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet --disable-pip-version-check "mpich==$version"
    (
        export PATH=$work/$version/bin:$PATH LD_LIBRARY_PATH=$work/$version/lib
        mpicc -w handler.c -o "handler-$version"
        printf 'MPICH %s, %s\n' "$version" "$(timeout 60 mpiexec -n 1 "./handler-$version" | tee "said-$version")"
    )
done
before="MPI_ERRORS_RETURN: returned MPI_ERR_RANK; own handler: given MPI_ERR_RANK, returned"
[ "$(cat said-4.2.3)" = "$before MPI_ERR_RANK" ] && [ "$(cat said-5.0.2)" = "$before MPI_SUCCESS" ] ||
    { echo "this has changed"; exit 1; }
