#!/bin/bash
# shmem4py.sh DIST PLACE PES...: builds shmem4py from PyPI's source distribution with DIST's oshcc, and runs its own tests on
# each number of PEs. The status is 1 if a test fails or none ran, 3 when PyPI cannot be reached.
set -euo pipefail
dist=$1 place=$2
shift 2
# With NumPy 2 shmem4py 1.0.0 makes no array of a list: it asks numpy.array for one without a copy.
version=1.0.0 numpy=1.26.4
mkdir -p "$place"
log=$place/build.log
[ -x "$dist/bin/oshcc" ] || { echo "test-shmem4py: $dist/bin/oshcc is not there: run make first" >&2; exit 1; }
failed() {
    echo "test-shmem4py: shmem4py could not be $1; all of pip's output: $log" >&2
    exit "${2:-1}"
}
rm -rf "$place/venv" "$place/source"
python3 -m venv "$place/venv" >"$log" 2>&1 || failed "given a virtual environment"
pip() { "$place/venv/bin/python" -m pip --disable-pip-version-check --no-cache-dir "$@" >>"$log" 2>&1 </dev/null; }
{ pip install --retries 1 "numpy==$numpy" cffi && pip download --retries 1 --no-deps --no-binary shmem4py --dest "$place" \
    "shmem4py==$version"; } || failed "had from PyPI" 3
mkdir "$place/source"
tar -x -z -C "$place/source" --strip-components 1 -f "$place/shmem4py-$version.tar.gz"
OSHCC=$dist/bin/oshcc pip install --no-deps "$place/shmem4py-$version.tar.gz" || failed "built"

status=0
cd "$place/source/test"
for pes in "$@"; do
    all=$place/tests-$pes.txt
    ended=0
    timeout 300 "$dist/bin/oshrun" -n "$pes" "$place/venv/bin/python" -m unittest discover -q . >"$all" 2>&1 || ended=$?
    ran=$(grep -c '^Ran [1-9][0-9]* tests' "$all" || true) fine=$(grep -cE '^OK( |$)' "$all" || true)
    if [ "$ended" = 0 ] && [ "$ran" -gt 0 ] && [ "$ran" = "$fine" ]; then
        echo "shmem4py $version on $pes PEs: $(grep -m 1 -o '^Ran [0-9]* tests' "$all"), all passed"
    else
        echo "shmem4py $version on $pes PEs: status $ended, $fine of $ran PEs passed; all output: $all"
        status=1
    fi
done
exit "$status"
