#!/bin/bash
# mpi4py.sh: mpi4py from PyPI's source distribution, built with our mpicc into a private virtual environment.
#
# Leaves target/mpi4py/source (the distribution, unpacked; its tests are in test/) and target/mpi4py/venv, and prints nothing but
# a line while it builds. Both stay until the compiler, what it says of itself, or the version changes.
# DEMO_MPICC puts another MPI's compiler in place of ours (to tell whose fault something is).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
mpicc=${DEMO_MPICC:-$root/target/dist/bin/mpicc}
version=4.1.2
place=$root/target/mpi4py
venv=$place/venv

[ -x "$mpicc" ] || { echo "mpi4py: $mpicc is not there: run make first" >&2; exit 1; }
stamp="$version $mpicc $("$mpicc" -show)"
[ "$(cat "$venv/built-with" 2>/dev/null)" != "$stamp" ] || exit 0

rm -rf "$place"
mkdir -p "$place"
log=$place/build.log
failed() {
    grep -iE 'error' "$log" | tail -5
    echo "mpi4py could not be $1; all of pip's output: ${log#"$root"/}" >&2
    exit 1
}
python3 -m venv "$venv"
pip=("$venv/bin/pip" --disable-pip-version-check --no-cache-dir)
echo "building mpi4py $version (some minutes) ..."
"${pip[@]}" download --no-binary mpi4py --no-deps --dest "$place" "mpi4py==$version" >"$log" 2>&1 </dev/null || failed "had from PyPI"
mkdir "$place/source"
tar -x -z -C "$place/source" --strip-components 1 -f "$place/mpi4py-$version.tar.gz"
# Its modules are one very long C file: without debug information and with -O1 the compiler needs half the time.
CFLAGS="-O1 -g0" MPICC=$mpicc MPI4PY_BUILD_MPICC=$mpicc "${pip[@]}" install --verbose "$place/mpi4py-$version.tar.gz" \
    >>"$log" 2>&1 </dev/null || failed "built"
echo "$stamp" >"$venv/built-with"
