#!/bin/bash
# mpi4py.sh [wheel | source]: mpi4py from PyPI's source distribution, built with our mpicc into a private virtual environment. `wheel`:
# its binary wheel in place of that, as anybody gets it, in target/mpi4py/wheel; it needs no mpicc. `source`: the distribution alone.
#
# Leaves target/mpi4py/source (the distribution, unpacked; its tests are in test/) and target/mpi4py/venv, and prints nothing but
# a line while it builds. Both stay until the compiler, what it says of itself, or the version changes. One line says what failed;
# the status is 3 when PyPI cannot be reached.
# DEMO_MPICC puts another MPI's compiler in place of ours (to tell whose fault something is).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
mpicc=${DEMO_MPICC:-$root/target/dist/bin/mpicc}
version=4.1.2
# What its build asks for; a venv has none of it.
tools=(setuptools wheel 'Cython>=3.0.1')
place=$root/target/mpi4py
venv=$place/venv
fetched=$place/fetched
log=$place/${1:-build}.log
mkdir -p "$place"
exec 8>"$place/.lock"
flock 8

failed() {
    echo "mpi4py could not be $1: $(grep -iE 'error' "$log" | tail -1); all of pip's output: ${log#"$root"/}" >&2
    exit "${2:-1}"
}
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-cache-dir "$@" >>"$log" 2>&1 </dev/null; }

if [ "${1:-}" = wheel ]; then
    venv=$place/wheel
    [ "$(cat "$venv/installed" 2>/dev/null)" != "$version" ] || exit 0
    rm -rf "$venv"
    python3 -m venv "$venv" >"$log" 2>&1 || failed "given a virtual environment"
    pip install --retries 1 --only-binary mpi4py "mpi4py==$version" || failed "had from PyPI" 3
    echo "$version" >"$venv/installed"
    exit 0
fi

if [ "$(cat "$fetched" 2>/dev/null)" != "$version ${tools[*]}" ]; then
    rm -rf "$venv" "$fetched" "$place/source" "$place"/mpi4py-*
    : >"$log"
    python3 -m venv "$venv" >"$log" 2>&1 || failed "given a virtual environment"
    { pip install --retries 1 "${tools[@]}" && pip download --retries 1 --no-binary mpi4py --no-deps --no-build-isolation \
        --dest "$place" "mpi4py==$version"; } || failed "had from PyPI" 3
    mkdir "$place/source"
    tar -x -z -C "$place/source" --strip-components 1 -f "$place/mpi4py-$version.tar.gz"
    echo "$version ${tools[*]}" >"$fetched"
fi
[ "${1:-}" != source ] || exit 0
[ -x "$mpicc" ] || { echo "mpi4py: $mpicc is not there: run make first" >&2; exit 1; }
stamp="$version $mpicc $("$mpicc" -show)"
[ "$(cat "$venv/built-with" 2>/dev/null)" != "$stamp" ] || exit 0
rm -f "$venv/built-with"
echo "building mpi4py $version (about 1 min) ..."
# Its modules are one very long C file: with any optimisation the compiler needs three times as long.
CFLAGS="-O0 -g0" MPICC=$mpicc MPI4PY_BUILD_MPICC=$mpicc pip install --verbose --no-index --no-deps --no-build-isolation --force-reinstall \
    "$place/mpi4py-$version.tar.gz" || failed "built"
echo "$stamp" >"$venv/built-with"
