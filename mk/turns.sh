#!/bin/bash
# turns.sh: two people start a program at the same time on the same cores. Each one's time, over its time alone, under this
# library and under MPICH with the same binary, and a picture of who ran when.
#
# The daemon that mpiexec starts has a folder of its own here, and ends with this script. MPICH comes from PyPI if it is not there
# yet (mk/peer.sh); where it cannot be had, one line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bin=$root/target/dist/bin
folder=$root/target/demo
mpich=$root/target/peers/mpich
rounds=${TURNS_ROUNDS:-40000}
limit_s=300

mkdir -p "$folder"
run=$(mktemp -d "$folder/turns.XXXXXX")
export TUTTI_DIR=$run
unset TUTTI_DAEMON
# Without pgrep, which a small system lacks.
daemon_pid() {
    local file words
    for file in /proc/[0-9]*/cmdline; do
        words=$(tr '\0' ' ' 2>/dev/null <"$file") || continue
        [[ $words != *"tuttid --on-demand "*"--dir $run/"* ]] || basename "${file%/cmdline}"
    done
} 2>/dev/null
finish() {
    local pid
    for pid in $(daemon_pid); do kill "$pid" 2>/dev/null || true; done
    rm -rf "$run"
}
trap finish EXIT

"$bin/mpicc" -std=c11 -O2 -Wall -Wextra -pedantic -o "$folder/turns" examples/turns.c

# round_us COMMAND...: how long a round took, as the program says.
round_us() {
    timeout --foreground --kill-after=5 "$limit_s" "$@" </dev/null | sed -n 's/.* s, \([0-9.]*\) us each.*/\1/p'
}

# pair NAME COMMAND...: alone, then two at once.
pair() {
    local name=$1 alone first second
    shift
    alone=$(round_us "$@")
    round_us "$@" >"$run/first" &
    round_us "$@" >"$run/second"
    wait $!
    first=$(cat "$run/first") second=$(cat "$run/second")
    [ -n "$alone" ] && [ -n "$first" ] && [ -n "$second" ] || { echo "    $name FAILED"; return 1; }
    awk -v name="$name" -v alone="$alone" -v first="$first" -v second="$second" 'BEGIN {
        printf "    %-22s a round alone %6.1f us, two at once %6.1f and %6.1f us: %5.2f and %5.2f times as long\n", name, alone, first,
            second, first / alone, second / alone
    }'
}

echo "\$ mpiexec -n 2 ./turns, in one window, then in two at once"
pair "Tutti" "$bin/mpiexec" -n 2 "$folder/turns" "$rounds"
"$bin/tutti" timeline --all -o "$folder/timeline.html" >/dev/null
echo "    target/demo/timeline.html shows who ran when: open it in a browser"

if why=$(mk/peer.sh mpich 2>&1); then
    # The same binary: both speak the ABI of MPI 5. Fewer rounds, since one may take a hundred times as long.
    pair "MPICH 5, bound" env LD_LIBRARY_PATH="$mpich/lib" "$mpich/bin/mpiexec" -bind-to core -n 2 "$folder/turns" "$((rounds / 8))"
    pair "MPICH 5, not bound" env LD_LIBRARY_PATH="$mpich/lib" "$mpich/bin/mpiexec" -bind-to none -n 2 "$folder/turns" "$((rounds / 40))"
else
    echo "    MPICH beside it: left out, $why"
fi
