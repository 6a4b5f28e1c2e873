#!/bin/bash
# native.sh: writes, queues and signals of the native interface (bench/c/native.c), inside a node and between two
# network namespaces. NATIVE gives options of the program, e.g. NATIVE="--budget-ms 1000".
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/target/dist/bin
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
export TUTTI_DAEMON=none

"$bin/mpicc" -O2 -Wall -Wextra -o "$run/native" bench/c/native.c -ltutti
for where in "" "--netns 2"; do
    # shellcheck disable=SC2086
    timeout --kill-after=5 200 "$bin/mpiexec" $where -n 2 "$run/native" ${NATIVE:-} </dev/null | sort >"$run/lines"
    awk -v where="${where:-one node}" '
    {
        for (i = 2; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
        for (kind in value) if (kind ~ /^(done|there)_ns$/) figure[value["op"], value["bytes"], kind] = \
            sprintf("%.2f (%.1f)", value[kind] / 1000, value["p99_ns"] / 1000)
        sizes[value["bytes"]]
        delete value
    }
    END {
        print "\n" where ": median (p99), us\n"
        print "| bytes | write, acknowledged | queue, acknowledged | queue, taken | signal, acknowledged | signal, function runs |"
        print "|---|---|---|---|---|---|"
        count = 0
        for (size in sizes) order[++count] = size + 0
        for (i = 2; i <= count; i++)
            for (j = i; j > 1 && order[j - 1] > order[j]; j--) { swap = order[j]; order[j] = order[j - 1]; order[j - 1] = swap }
        for (i = 1; i <= count; i++) {
            size = order[i]
            print "| " size " | " figure["write", size, "done_ns"] " | " figure["queue", size, "done_ns"] " | " \
                figure["queue", size, "there_ns"] " | " figure["signal", size, "done_ns"] " | " \
                figure["signal", size, "there_ns"] " |"
        }
    }' "$run/lines"
done
