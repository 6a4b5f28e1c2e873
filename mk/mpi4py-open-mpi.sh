#!/bin/bash
# mpi4py-open-mpi.sh DIST RANKS...: mpi4py's own tests on the wheel of PyPI with Open MPI's library, 5 (PyPI's wheel) and 4.1
# (Debian's), each under Open MPI's own launcher and under ours. Ends with status 1 where a test has another result under ours.
# What cannot be had skips a version with one line. target/mpi4py/wheel is there (mk/mpi4py.sh wheel).
set -euo pipefail
cd "$(dirname "$0")/.."
mpi4py=$PWD/target/mpi4py dist=$1
shift
export MPI4PY_MPIABI=openmpi
status=0

# both VERSION LAUNCHER LIBMPI LIBPMIX RANKS...: the suite under both launchers, and what differs.
both() {
    local version=$1 launcher=$2 library=$3 libpmix=$4
    shift 4
    local results=$mpi4py/results-open-mpi-$version
    rm -rf "$results-own" "$results-ours"
    echo "Open MPI $version:"
    # The module of mpi4py finds its library by name alone.
    local LD_LIBRARY_PATH=${library%/*}:${LD_LIBRARY_PATH:-}
    export LD_LIBRARY_PATH
    # Tests that fail under both do so by Open MPI.
    MPI4PY_LIBMPI=$library suite "$launcher" "$results-own" open-mpi "$@" || true
    MPI4PY_LIBMPI=$library TUTTI_LIBPMIX=$libpmix suite "$dist/bin/mpiexec" "$results-ours" node "$@" || true
    "$mpi4py/wheel/bin/python" tests/mpi4py/beside.py "$results-own" "$results-ours" "$@" || status=1
}
suite() {
    "$mpi4py/wheel/bin/python" "$PWD/tests/mpi4py/run.py" "$mpi4py/wheel/bin/python" "$mpi4py/source/test" "$1" \
        "$PWD/bindings/mpi/functions.txt" "$2" "${@:3}"
}

if mk/peer.sh openmpi 2>"$mpi4py/peer.log"; then
    own=$PWD/target/peers/openmpi
    both 5 "$own/bin/mpirun" "$own/lib/libmpi.so.40" "$own/lib/openmpi/libpmix.so.2" "$@"
else
    echo "skipped: $(cat "$mpi4py/peer.log")"
fi
. mk/open-mpi-debian.sh
programs=()
if open_mpi_debian; then
    both 4.1 "$root/usr/bin/mpirun.openmpi" "$lib/libmpi.so.40" "$lib/libpmix.so.2" "$@"
else
    echo "skipped: $missing"
fi
exit "$status"
