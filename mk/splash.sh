#!/bin/bash
# splash.sh DIR: the programs of a checkout of SPLASH-3, compiled unchanged by tutticc and run with small inputs: on one node,
# and on two virtual ones. A line for each program; one that fails ends the script with status 1.
#
#     lu/contiguous_blocks        1 node: verified   2 nodes: verified
#
# Verified: the program has tested its own result; or, where it has no test, what it prints (=) or draws (@) is what a run with
# one process does, numbers within a part in a million, pictures to the last byte; of what ends when it is near enough (~) the
# last line, within a part in a hundred. Ran: it has ended well, and has nothing that could be compared. Nothing is written into
# DIR: each program is copied to target/splash.
#
# ONLY="lu fft" chooses by parts of names, RANKS=2 sets the processes, LIMIT_S=120 the time of a run, DSM=udsm (adsm, twin) the
# mode of tutticc. fmm and volrend change variables of C behind CREATE, and others need these: they are linked with
# --globals=shared.
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

# Folder | further sources and options | standard input | arguments | what a right run prints, or =LINES, ~LINES or @PICTURES that
# are compared.
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
apps/barnes|-Dprintf=shown_printf|inputs/n16384-p%:16384:1024||~^BODIES
apps/fmm|--globals=shared|inputs/input.%.16384:16384:2048|-o|=^P 
apps/radiosity|-Iglibdumb -Iglibps glibdumb/glib.c glibps/glibps.c||-p % -ae 5000 -bf 0.1 -en 0.005 -room -batch -verbose|~^Total energy
apps/raytrace|||-p% -m64 inputs/teapot.env|=^none
apps/volrend|--globals=shared -std=gnu89 -ftrivial-auto-var-init=zero -DHAVE_IEEEFP=1 -Ilibtiff -DPACKBITS_SUPPORT -DLZW_SUPPORT libtiff/tif_[!m]*.c||% inputs/head-scaleddown4 4|@inputs/head-scaleddown4_10[0-9][0-9]
'

# same FILE FILE APPROXIMATE: numbers of both are equal within a part in a million (~: in a hundred), and all else is. Numbers of
# fmm may also differ by 2.1e-5: owners of boxes set their expansions to zero while owners of their children add to them (a race of
# SPLASH-3's own, with threads too).
same() {
    awk -v approximate="$3" '
        BEGIN { part = approximate == "~" ? 1e-2 : 1e-6; beside = approximate == "fmm" ? 2.1e-5 : 0 }
        FNR == NR { want[FNR] = $0; lines = FNR; next }
        { n = split(want[FNR], one); if (n != NF) bad = 1
          for (i = 1; i <= NF; i++) if ($i != one[i]) {
              d = $i - one[i]; s = ($i < 0 ? -$i : $i) + (one[i] < 0 ? -one[i] : one[i])
              d = d < 0 ? -d : d
              if (s == 0 || (d > part * s && d > beside)) bad = 1 } }
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
    # shellcheck disable=SC2086 # names of pictures, of a run before
    [[ ${test:0:1} != @ ]] || rm -f ${test:1}
    # shellcheck disable=SC2086 # words of a line
    TUTTI_DSM_SIZE=${TUTTI_DSM_SIZE:-64G} timeout --kill-after=5 "$limit_s" "$mpiexec" -n "$2" --virtual-nodes "$3" ./splash ${arguments//%/$2} \
        <"${input:-/dev/null}" >"$1" 2>"$1.err"
}

# compared OUTPUT: its lines that are to be those of one process. The levels of OCEAN follow from how many there are.
compared() {
    case $test in
        =*) grep -aE "${test:1}" "$1" | sed -E 's/level [0-9]+//' ;;
        \~*) grep -aE "${test:1}" "$1" | tail -n 1 | tr -c '0-9.\n-' ' ' ;;
        @*) drawn ;;
    esac
}

# What the pictures show, and not their directories: the libtiff of volrend writes 24 bytes for each entry there, as long as
# long integers are 8 bytes, and four of these it never sets. They are what was in that memory, with threads too. The head has
# 16 bytes, of which the last 8 are the place of the directory, behind the picture.
drawn() {
    local picture end
    for picture in ${test:1}; do
        [ -s "$picture" ] || return 0
        end=$(od -A n -t u8 -j 8 -N 8 "$picture")
        echo "$picture"
        od -A n -t u1 -v -j 16 -N $((end - 16)) "$picture"
    done
}

# judged RANKS NODES: one word, and the program's last line where it has failed.
judged() {
    local output=out-$1-$2 status=0 approximate
    run "$output" "$1" "$2" || status=$?
    if [ "$status" = 124 ]; then
        echo "over $limit_s s"
    elif [ "$status" != 0 ]; then
        echo "failed ($status: $({ grep -v -m 1 '^mpiexec: ' "$output.err" || grep . "$output.err" || grep . "$output"; } 2>/dev/null | tail -n 1 | cut -c 1-140))"
    elif [[ ${test:0:1} != [=~@] ]]; then
        if grep -qE "$test" "$output"; then echo verified; else echo "failed (its test says no)"; fi
    elif [ ! -s want ]; then
        echo "ran"
    else
        compared "$output" >found || true
        approximate=${test%%[!~]*}
        [ "$name" != fmm ] || approximate=fmm
        if same want found "$approximate"; then
            echo verified
        else
            cp found "found-$1-$2"
            echo "failed (other results than with one process: $PWD/want, found-$1-$2)"
        fi
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
    # A header with macros that files in folders below include.
    if [ "$folder" = apps/radiosity ]; then
        mkdir headers
        for header in *.h.in; do cp "$header" "headers/${header%.in}"; done
        m4 -s -Ulen -Uindex -I headers -- "$root/target/dist/share/tutti/parmacs.m4" structs.h.in >structs.h
    fi
    if [ "$folder" = apps/barnes ]; then
        # It prints times alone: sums over its bodies beside them.
        cat >shown.c.in <<'END'
EXTERN_ENV
#define global extern
#include "stdinc.h"
#include <stdarg.h>
#undef printf
int shown_printf(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    if (strncmp(format, "COMPUTEEND", 10) == 0) {
        double sums[3] = {0, 0, 0};
        for (bodyptr body = bodytab; body < bodytab + nbody; body++)
            for (int at = 0; at < NDIM; at++) {
                sums[0] += fabs(Pos(body)[at]);
                sums[1] += Pos(body)[at] * Vel(body)[at];
                sums[2] += Vel(body)[at] * Vel(body)[at];
            }
        fprintf(stdout, "BODIES %.6f %.6f %.6f\n", sums[0], sums[1], sums[2]);
    }
    return 0;
}
END
    fi
    # shellcheck disable=SC2086 # words of a line
    if ! "$tutticc" ${DSM:+--dsm=$DSM} -O2 -g -w -std=gnu11 -fno-strict-aliasing -o splash ./*.c.in $more -lm >compiled 2>&1; then
        printf '%-32s not compiled: %s\n' "$name" "$({ grep -m 1 -E 'error|not known|undefined' compiled || tail -n 1 compiled; } | cut -c 1-160)"
        failures=$((failures + 1))
        continue
    fi
    if [[ ${test:0:1} = [=~@] ]]; then
        run out-1-1 1 1 || true
        compared out-1-1 >want || true
    fi
    one=$(judged "$ranks" 1) two=$(judged "$ranks" 2)
    printf '%-32s 1 node: %-10s 2 nodes: %s\n' "$name" "$one" "$two"
    case "$one$two" in *failed* | *over*) failures=$((failures + 1)) ;; esac
done <<<"$programs"
[ $seen -gt 0 ] || { echo "splash: no program of SPLASH-3 is in $1${ONLY:+ whose name has $ONLY}" >&2; exit 2; }
[ $failures = 0 ]
