#!/bin/bash
# cluster.sh: what a cluster of daemons on this machine costs and how fast it is: daemons that have nothing to do, the start of jobs
# on several of them, and a thousand submissions. Nothing here decides a test.
#
# CLUSTER_QUICK=1 looks at everything once, and shortly.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/target/dist/bin
rounds=5 idle_s=${CLUSTER_IDLE_S:-30} submissions=1000
[ -z "${CLUSTER_QUICK:-}" ] || rounds=1 idle_s=5 submissions=100

mkdir -p target/tmp
run=$(mktemp -d "$PWD/target/tmp/bench-cluster.XXXXXX")
export TUTTI_DIR=$run TUTTI_DAEMON=$run/tuttid.sock
finish() {
    "$bin/tutti" down >"$run/down" 2>&1 || true
    rm -rf "$run"
}
trap finish EXIT

"$bin/mpicc" -std=c11 -O2 -o "$run/hello" examples/hello.c

now_ms() { echo $(($(date +%s%N) / 1000000)); }
daemons() { pgrep -f "^[^ ]*/tuttid .*$run" || true; }
# The CPU time of all daemons, in ns.
spent_ns() {
    local pid
    for pid in $(daemons); do cat /proc/"$pid"/task/*/schedstat; done | awk '{ sum += $1 } END { printf "%.0f", sum }'
}
# median COMMAND...: the time of a run, in ms.
median_ms() {
    local round start
    for ((round = 0; round < rounds; round++)); do
        start=$(now_ms)
        timeout --kill-after=5 100 "$@" </dev/null >"$run/out" || { echo "failed: $*" >&2; exit 1; }
        echo $(($(now_ms) - start))
    done | sort -n | sed -n "$((rounds / 2 + 1))p"
}

printf '%s cores, load %s\n\n' "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
printf '| daemons | all there after, ms | idle, %% of a core | launch, ms: 2 ranks | 32 ranks | 128 ranks |\n|---|---|---|---|---|---|\n'
for nodes in 1 4 32; do
    start=$(now_ms)
    "$bin/tutti" up --nodes "$nodes" >"$run/up"
    up=$(($(now_ms) - start))
    # What is done at the beginning is not what an idle cluster does.
    sleep 3
    before=$(spent_ns) start=$(now_ms)
    sleep "$idle_s"
    idle=$(awk -v a="$before" -v b="$(spent_ns)" -v ms=$(($(now_ms) - start)) 'BEGIN { printf "%.2f", (b - a) / ms / 1e4 }')
    row="| $nodes | $up | $idle |"
    for ranks in 2 32 128; do
        on=$((nodes < ranks ? nodes : ranks))
        row+=" $(median_ms "$bin/tutti" run -q -N "$on" -n "$ranks" "$run/hello") |"
    done
    echo "$row"
    if [ "$nodes" = 4 ]; then
        start=$(now_ms)
        for ((job = 0; job < submissions; job++)); do "$bin/tutti" submit -n 1 true; done >"$run/out"
        one=$(($(now_ms) - start))
        start=$(now_ms)
        seq "$submissions" | xargs -P 16 -I{} "$bin/tutti" submit -n 1 true >"$run/out"
        many=$(($(now_ms) - start))
        while "$bin/tutti" ps | grep -Eq ' (starting|running|ending) '; do sleep 0.1; done
        said="$submissions submissions on 4 daemons: one after the other $((one / 1000)).$((one % 1000 / 100)) s, 16 at a time $((many / 1000)).$((many % 1000 / 100)) s, the last one over after $((($(now_ms) - start) / 1000)) s"
    fi
    "$bin/tutti" down >"$run/down"
    while [ -n "$(daemons)" ]; do sleep 0.05; done
done
printf '\n%s\n' "$said"
