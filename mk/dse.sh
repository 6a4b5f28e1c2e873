#!/bin/bash
# dse.sh: the experiments of DSE's paper, with kernel and process of an element in one process and apart (TUTTI_DSE_KERNEL),
# alternating; medians over the rounds, as tables of Markdown.
#
# 1. One access of 16 bytes, local and remote: elements of one node, and of two virtual ones.
# 2. The relaxation of examples/sor.c, 48 x 48 and 1024 x 1024, on 1 to 16 elements: communication and computation.
#
# DSE_ROUNDS, DSE_ELEMENTS, DSE_STEPS_48, DSE_STEPS_1024, DSE_LIMIT_S change it. A run over its limit is shown as `-`.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/target/dist/bin
rounds=${DSE_ROUNDS:-5}
elements=${DSE_ELEMENTS:-"1 2 4 8 16"}
steps_48=${DSE_STEPS_48:-100} steps_1024=${DSE_STEPS_1024:-20}
limit_s=${DSE_LIMIT_S:-60}
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
export TUTTI_DAEMON=none

for source in bench/c/dse.c examples/sor.c; do
    "$bin/mpicc" -O2 -Wall -Wextra -o "$run/$(basename "$source" .c)" "$source" -ltutti
done

# job KERNEL RANKS NODES COMMAND...
job() {
    local kernel=$1 ranks=$2 nodes=$3
    shift 3
    TUTTI_DSE_KERNEL=$kernel timeout --kill-after=5 "$limit_s" "$bin/mpiexec" -n "$ranks" --virtual-nodes "$nodes" "$@" </dev/null
}

# median FILE: of its numbers; `-` if there are none.
median() {
    sort -g "$1" 2>/dev/null | awk '{ v[NR] = $1 } END { if (NR) printf "%.3f\n", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2; else print "-" }'
}

echo "load: $(cut -d' ' -f1-3 /proc/loadavg); $(nproc) cores; $rounds rounds"
echo
echo "| one access of 16 bytes, us | one process | apart | apart, 2 nodes | one process, 2 nodes |"
echo "|---|---|---|---|---|"
for ((round = 0; round < rounds; round++)); do
    for kernel in one apart; do
        for nodes in 1 2; do
            { job "$kernel" 2 "$nodes" "$run/dse" 1000 || true; } | while read -r what mean; do
                echo "${mean#mean_us=}" >>"$run/access-$kernel-$nodes-${what#what=}"
            done
        done
    done
done
for what in local-read local-write local-confirmed remote-read remote-write remote-confirmed; do
    echo "| ${what/-/ } | $(median "$run/access-one-1-$what") | $(median "$run/access-apart-1-$what") | $(
        median "$run/access-apart-2-$what") | $(median "$run/access-one-2-$what") |"
done

for size in 48 1024; do
    steps=steps_$size
    echo
    echo "| sor $size x $size, ${!steps} steps, ms: elements | alone | one: all | communication | computation | apart: all | communication | computation |"
    echo "|---|---|---|---|---|---|---|---|"
    for count in $elements; do
        for ((round = 0; round < rounds; round++)); do
            for kernel in one apart; do
                line=$(job "$kernel" "$count" 1 "$run/sor" "$size" "${!steps}" || true)
                case $line in
                *verified) ;;
                *) continue ;;
                esac
                at=$run/sor-$size-$count
                sed 's/.*elements: \([0-9.]*\) ms.*/\1/' <<<"$line" >>"$at-$kernel-all"
                sed 's/.*communication \([0-9.]*\).*/\1/' <<<"$line" >>"$at-$kernel-communication"
                sed 's/.*computation \([0-9.]*\).*/\1/' <<<"$line" >>"$at-$kernel-computation"
                sed 's/.*alone \([0-9.]*\).*/\1/' <<<"$line" >>"$at-alone"
            done
        done
        row="| $count | $(median "$run/sor-$size-$count-alone")"
        for kernel in one apart; do
            for part in all communication computation; do
                row+=" | $(median "$run/sor-$size-$count-$kernel-$part")"
            done
        done
        echo "$row |"
    done
done
