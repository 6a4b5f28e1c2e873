#!/bin/bash
# splash.sh DIR: the programs of a checkout of SPLASH-3, compiled unchanged by tutticc and run with small inputs: on one node,
# and on two virtual ones. A line for each program; one that fails ends the script with status 1.
#
#     lu/contiguous_blocks        1 node: verified   2 nodes: verified
#
# Verified: the program has tested its own result; or, where it has no test, lines of it are those of a run with one process,
# numbers within a part in a million. Ran: it has ended well, and prints nothing that could be compared. Nothing is written into
# DIR: each program is copied to target/splash.
#
# ONLY="lu fft" chooses by parts of names, RANKS=2 sets the processes, LIMIT_S=120 the time of a run.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
ranks=${RANKS:-2} limit_s=${LIMIT_S:-120} failures=0 seen=0
tutticc=$root/target/dist/bin/tutticc mpiexec=$root/target/dist/bin/mpiexec place=$root/target/splash
usage="splash: make splash SPLASH=DIR, the folder of a checkout of SPLASH-3"

[ -n "${1:-}" ] || { echo "$usage" >&2; exit 2; }
splash=$1
[ ! -d "$splash/codes" ] || splash=$splash/codes
[ -d "$splash/kernels" ] && [ -d "$splash/apps" ] || { echo "splash: $1 has no folders kernels and apps: $usage" >&2; exit 2; }
[ -x "$tutticc" ] || { echo "splash: $tutticc is not there: run make first" >&2; exit 1; }
command -v m4 >/dev/null 2>&1 || { echo "splash: m4 is not there" >&2; exit 1; }

# Folder | further sources and options | standard input | arguments | what a right run prints, or =LINES that are compared.
# %: number of processes. FILE:A:B is the file with the word B in the place of A.
programs='
kernels/fft|||-p% -m12 -t|^TEST PASSED
kernels/lu/contiguous_blocks|||-p% -n256 -b16 -t|^TEST PASSED
kernels/lu/non_contiguous_blocks|||-p% -n256 -b16 -t|^TEST PASSED
kernels/radix|||-p% -n65536 -r256 -t|^PASSED
kernels/cholesky||inputs/tk14.O|-p% -t|^ *PASSED
apps/ocean/contiguous_partitions|||-p% -n66 -o|=^iter
apps/ocean/non_contiguous_partitions|||-p% -n66 -o|=^iter
apps/water-nsquared||inputs/n512-p%:512:64||=^ *-?[0-9].*[0-9]$
apps/water-spatial||inputs/n512-p%:512:64||=^ *-?[0-9].*[0-9]$
apps/barnes||inputs/n16384-p%:16384:1024||=^none
apps/fmm||inputs/input.%.16384:16384:2048||=^none
apps/radiosity|-Iglibdumb -Iglibps glibdumb/glib.c glibps/glibps.c||-p % -ae 5000 -bf 0.1 -en 0.05 -room -batch|=^none
apps/raytrace|||-p% -m64 inputs/teapot.env|=^none
apps/volrend|||% inputs/head-scaleddown4 4|=^none
'

# same FILE FILE: numbers of both are equal within a part in a million, and all else is.
same() {
    awk '
        FNR == NR { want[FNR] = $0; lines = FNR; next }
        { n = split(want[FNR], one); if (n != NF) bad = 1
          for (i = 1; i <= NF; i++) if ($i != one[i]) {
              d = $i - one[i]; s = ($i < 0 ? -$i : $i) + (one[i] < 0 ? -one[i] : one[i])
              if (s == 0 || (d < 0 ? -d : d) > 1e-6 * s) bad = 1 } }
        END { exit bad || FNR != lines || lines == 0 }' "$1" "$2"
}

# run OUTPUT RANKS NODES: in the program's folder.
run() {
    local input=${stdin//%/$2} from to
    IFS=: read -r input from to <<<"$input"
    if [ -n "$from" ]; then
        sed "s/\b$from\b/$to/" "$input" >input-of-run
        input=input-of-run
    fi
    # shellcheck disable=SC2086 # words of a line
    TUTTI_DSM_SIZE=${TUTTI_DSM_SIZE:-64G} timeout --kill-after=5 "$limit_s" "$mpiexec" -n "$2" --virtual-nodes "$3" ./splash ${arguments//%/$2} \
        <"${input:-/dev/null}" >"$1" 2>"$1.err"
}

# compared OUTPUT: its lines that are to be those of one process. The levels of OCEAN follow from how many there are.
compared() { grep -E "${test:1}" "$1" | sed -E 's/level [0-9]+//'; }

# judged RANKS NODES: one word, and the program's last line where it has failed.
judged() {
    local output=out-$1-$2 status=0
    run "$output" "$1" "$2" || status=$?
    if [ "$status" = 124 ]; then
        echo "over $limit_s s"
    elif [ "$status" != 0 ]; then
        echo "failed ($status: $({ grep -v -m 1 '^mpiexec: ' "$output.err" || grep . "$output.err" || grep . "$output"; } 2>/dev/null | tail -n 1 | cut -c 1-140))"
    elif [ "${test:0:1}" != = ]; then
        if grep -qE "$test" "$output"; then echo verified; else echo "failed (its test says no)"; fi
    elif ! compared out-1-1 >want; then
        echo "ran"
    else
        compared "$output" >found || true
        if same want found; then echo verified; else echo "failed (other results than with one process)"; fi
    fi
}

while IFS='|' read -r folder more stdin arguments test; do
    [ -n "$folder" ] && [ -d "$splash/$folder" ] || continue
    name=${folder#*/}
    if [ -n "${ONLY:-}" ]; then
        wanted=
        for part in $ONLY; do case $name in *"$part"*) wanted=1 ;; esac; done
        [ -n "$wanted" ] || continue
    fi
    seen=$((seen + 1))
    here=$place/${name//\//-}
    rm -rf "$here"
    mkdir -p "$here"
    cp -rL "$splash/$folder/." "$here/" 2>/dev/null || true
    cd "$here"
    # shellcheck disable=SC2086 # words of a line
    if ! "$tutticc" -O2 -g -w -std=gnu11 -fno-strict-aliasing -o splash ./*.c.in $more -lm >compiled 2>&1; then
        printf '%-32s not compiled: %s\n' "$name" "$({ grep -m 1 -E 'error|not known|undefined' compiled || tail -n 1 compiled; } | cut -c 1-160)"
        failures=$((failures + 1))
        continue
    fi
    [ "${test:0:1}" != = ] || run out-1-1 1 1 || true
    one=$(judged "$ranks" 1) two=$(judged "$ranks" 2)
    printf '%-32s 1 node: %-10s 2 nodes: %s\n' "$name" "$one" "$two"
    case "$one$two" in *failed* | *over*) failures=$((failures + 1)) ;; esac
done <<<"$programs"
[ $seen -gt 0 ] || { echo "splash: no program of SPLASH-3 is in $1${ONLY:+ whose name has $ONLY}" >&2; exit 2; }
[ $failures = 0 ]
