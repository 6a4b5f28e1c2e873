#!/bin/bash
# ranks.sh: many ranks on this node (bench/c/ranks.c): time from start to end, processor time, and memory of a rank.
# RANKS="64 256" says how many (default 64 128 256 512 1024 2048), PEERS="mpich openmpi" which others run beside (default
# mpich openmpi; none: ""). Counts for which the memory does not suffice are left out, and a line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/target
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
export TUTTI_DAEMON=none TIMEFORMAT='%R %U %S'
# What the largest count took of a rank, and twice that for the tables of the kernel.
kib_each=2560 limit_s=${LIMIT_S:-300}

mpis=tutti
for peer in ${PEERS-mpich openmpi}; do
    if mk/peer.sh "$peer"; then mpis+=" $peer"; fi
done
for mpi in $mpis; do
    cc=$target/peers/$mpi/bin/mpicc
    [ "$mpi" != tutti ] || cc=$target/dist/bin/mpicc
    "$cc" -O2 -Wall -Wextra -o "$run/$mpi" bench/c/ranks.c
done

# start MPI RANKS WHAT: one line of the table.
start() {
    local launch=("$target/dist/bin/mpiexec" --bind-to none)
    case $1 in
    mpich) launch=("$target/peers/mpich/bin/mpiexec") ;;
    openmpi) launch=("$target/peers/openmpi/bin/mpiexec" --allow-run-as-root --oversubscribe --bind-to none) ;;
    esac
    local ended=0 line
    { time timeout --kill-after=5 "$limit_s" "${launch[@]}" -n "$2" "$run/$1" "$3" </dev/null >"$run/out" 2>"$run/err"; } \
        2>"$run/time" || ended=$?
    read -r real user system <"$run/time"
    line=$(grep '^pss_kib' "$run/out" || true)
    if [ "$ended" != 0 ]; then
        echo "| $2 | $3 | $1 | status $ended: $(head -1 "$run/err" | cut -c 1-60) | | | | |"
        [ "$1" != tutti ] || failed=1
        return
    fi
    awk -v head="| $2 | $3 | $1" -v real="$real" -v user="$user" -v system_s="$system" '{
        for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
        printf "%s | %s | %.2f | %s | %s | %s |\n", head, real, user + system_s, value["pss_kib"], value["tables_kib"], value["faults"]
    }' <<<"${line:-none}"
}

failed=0
echo "| ranks | what | MPI | start to end, s | CPU, s | PSS a rank, KiB | its page tables, KiB | its page faults |"
echo "|---|---|---|---|---|---|---|---|"
for ranks in ${RANKS:-64 128 256 512 1024 2048}; do
    available=$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)
    if [ $((ranks * kib_each)) -gt "$available" ]; then
        echo "$ranks ranks are left out: they may need $((ranks * kib_each / 1024)) MiB, and $((available / 1024)) are free" >&2
        continue
    fi
    for what in start barrier ring alltoall; do
        for mpi in $mpis; do start "$mpi" "$ranks" "$what"; done
    done
done
exit "$failed"
