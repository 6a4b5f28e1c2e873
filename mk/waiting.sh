#!/bin/bash
# waiting.sh: four ways to wait, of two PEs beside 0, 1 and 3 competing processes per core, and for a PE that is stopped
# (bench/c/waiting.c). WAITING gives options of the program, e.g. WAITING="--rounds 9".
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/target/dist/bin
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
export TUTTI_DAEMON=none

"$bin/oshcc" -O2 -Wall -Wextra -o "$run/waiting" bench/c/waiting.c -ltutti
# shellcheck disable=SC2086
timeout --kill-after=5 280 "$bin/oshrun" -n 2 "$run/waiting" ${WAITING:-} </dev/null >"$run/lines"
awk '
function of(name,   i, pair) {
    for (i = 2; i <= NF; i++) {
        split($i, pair, "=")
        if (pair[1] == name) return pair[2]
    }
    return "-"
}
/partner=stopped/ { stopped = stopped sprintf("| %s | %s | %s |\n", of("way"), of("cpu_us"), of("of_ms")); next }
{ table = table sprintf("| %s | %s | %s | %s |\n", of("competitors"), of("way"), of("mean_us"), of("others_share")) }
END {
    print "| competitors per core | way | a round of the pair, us | speed of the others, of that alone |\n|---|---|---|---|"
    print table
    print "| a stopped partner, way | CPU time used, us | of ms |\n|---|---|---|"
    printf "%s", stopped
}' "$run/lines"
