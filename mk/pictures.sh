#!/bin/bash
# pictures.sh: the crates of ARCHITECTURE.md, then the timeline and the screen that README shows. Two programs of two ranks start on the same cores, a third of a
# second apart; the picture has what the daemon wrote down meanwhile. Then `tutti top` shows a cluster of two nodes.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bin=$root/target/dist/bin
TUTTI_DRAW=1 "${CARGO:-cargo}" test --quiet --package tutti-tests --test house -- table_and_picture >/dev/null
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

# A cluster of its own; it ends with us.
export TUTTI_DIR=$run/cluster
trap '"$bin/tutti" down >/dev/null 2>&1 || true; rm -rf "$run"' EXIT
"$bin/tutti" up --nodes 2 --slots 4 >/dev/null
submit() { "$bin/tutti" submit -o none "$@" >/dev/null; }
work='while :; do :; done'
submit --name wide --weight 300 -N 2 -n 8 bash -c "$work"
submit --name second -N 2 -n 4 bash -c "$work"
submit --name third -N 1 -n 2 bash -c "$work"
submit --name next --after-ok 1 -n 4 bash -c "$work"
"$root/target/debug/tutti-screen" "$root/docs/pictures/top.svg" 20 100 "75%" "exec '$bin/tutti' top"
