#!/bin/bash
# pictures.sh: the timeline that README shows. Two programs of two ranks start on the same cores, a third of a second apart;
# the picture has what the daemon wrote down meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bin=$root/target/dist/bin
run=$(mktemp -d)
export TUTTI_DIR=$run/daemon
unset TUTTI_DAEMON
# The daemon of these two jobs has a folder of its own and leaves by itself; nothing waits for it.
trap 'rm -rf "$run"' EXIT
mkdir -m 700 "$TUTTI_DIR"
"$bin/mpicc" -O2 -o "$run/turns" examples/turns.c
cd "$run"
timeout 60 "$bin/mpiexec" --name first -n 2 ./turns 30000 >/dev/null &
sleep 0.3
timeout 60 "$bin/mpiexec" --name second -n 2 ./turns 30000 >/dev/null
wait
"$bin/tutti" timeline --all -o "$root/docs/pictures/two-jobs.svg"
"$bin/tutti" down >/dev/null 2>&1 || true
