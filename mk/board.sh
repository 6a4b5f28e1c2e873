#!/bin/bash
# board.sh: what the board costs: daemons that have no jobs refresh it and send its lines. Nothing here decides a test.
# All daemons are on this machine and share its cores, in a network namespace of their own (root), so what goes over
# the loopback device is theirs.
#
# BOARD_NODES="2 8 64" says how many, BOARD_S=20 how long each is looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${BOARD_APART:-}" ]; then
    BOARD_APART=1 exec unshare --net -- "$0"
fi
ip link set lo up
bin=$PWD/target/dist/bin
seconds=${BOARD_S:-20}

mkdir -p target/tmp
run=$(mktemp -d "$PWD/target/tmp/bench-board.XXXXXX")
export TUTTI_DIR=$run TUTTI_DAEMON=$run/tuttid.sock
finish() {
    "$bin/tutti" down >"$run/down" 2>&1 || true
    rm -rf "$run"
}
trap finish EXIT

daemons() { pgrep -f "^[^ ]*/tuttid .*$run" || true; }
# Of each daemon: its CPU time in ns, and how often it was given a core.
spent() {
    local pid
    for pid in $(daemons); do cat /proc/"$pid"/task/*/schedstat | awk '{ ns += $1; times += $3 } END { print ns, times }'; done
}
sent_bytes() { awk '/ lo:/ { print $10 }' /proc/net/dev; }

printf '%s cores, load %s, %s s each\n\n' "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)" "$seconds"
printf '| daemons | CPU of a daemon, %% of a core: mean | median | most | wake-ups in a second, mean | KB/s a link, with headers and acknowledgements |\n'
printf '|---|---|---|---|---|---|\n'
for nodes in ${BOARD_NODES:-2 8 64}; do
    "$bin/tutti" up --nodes "$nodes" >"$run/up"
    # What is done at the beginning is not what an idle cluster does.
    sleep 3
    spent >"$run/before" && before=$(sent_bytes)
    sleep "$seconds"
    spent >"$run/after" && after=$(sent_bytes)
    paste -d' ' "$run/before" "$run/after" | awk -v s="$seconds" '{ print ($3 - $1) / s / 1e7, ($4 - $2) / s }' | sort -n |
        awk -v n="$nodes" -v kb="$(((after - before) / 1000))" -v s="$seconds" '
            { cpu[NR] = $1; sum += $1; wakes += $2 }
            END { printf "| %d | %.3f | %.3f | %.3f | %.1f | %.1f |\n", n, sum / NR, cpu[int((NR + 1) / 2)], cpu[NR], wakes / NR, kb / s / (n - 1) }'
    "$bin/tutti" down >"$run/down"
    while [ -n "$(daemons)" ]; do sleep 0.05; done
done
