#!/bin/bash
# MPI_Comm_split_type with MPI_COMM_TYPE_HW_GUIDED makes one communicator for each instance of the hardware that the info key
# mpi_hw_resource_type names, and gives MPI_COMM_NULL where "the MPI implementation does not recognize the value" (MPI-4.1,
# 7.4.2). Intel MPI 2021.18.1 gives a communicator of all processes of the machine for any word, also for one that no
# library knows, as if they shared that piece of hardware. Without the key it gives MPI_COMM_NULL, as it should.
# MPICH 5.0.2 gives MPI_COMM_NULL in both cases. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >split.c <<'C'
#include <mpi.h>
#include <stdio.h>
static void try(const char *kind)
{
    int rank, size;
    MPI_Comm made;
    MPI_Info info;
    MPI_Info_create(&info);
    if (kind) MPI_Info_set(info, "mpi_hw_resource_type", kind);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &made);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (made != MPI_COMM_NULL) MPI_Comm_size(made, &size);
    if (rank == 0 && made == MPI_COMM_NULL) printf("%s MPI_COMM_NULL; ", kind ? kind : "no key");
    if (rank == 0 && made != MPI_COMM_NULL) printf("%s %d of 3 processes; ", kind ? kind : "no key", size);
    MPI_Info_free(&info);
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    try(NULL);
    try("pancake");
    try("hwloc://Pancake");
    MPI_Finalize();
    return 0;
}
C
export I_MPI_FABRICS=shm
for package in impi mpich==5.0.2; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include split.c -o split -L impi/lib -lmpi ;;
        *) mpicc -w split.c -o split ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 3 ./split 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: no key MPI_COMM_NULL; pancake 3 of 3 processes; hwloc://Pancake 3 of 3 processes; 
mpich==5.0.2: no key MPI_COMM_NULL; pancake MPI_COMM_NULL; hwloc://Pancake MPI_COMM_NULL; 
END
cmp -s said expected || { echo "this has changed"; exit 1; }
