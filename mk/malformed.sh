#!/bin/bash
# malformed.sh FRAMES: every test of the crates about bytes that are nearly right (`nearly_right` in its name), with so many
# frames for each reader. Tests run side by side, one a core, each as a process of its own with a budget that follows the count:
# a minute, and two milliseconds a frame. Ends with the time of each; the status is 1 if any failed or took more.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
frames=${1:?usage: malformed.sh FRAMES}
[[ $frames =~ ^[0-9]+$ ]] || { echo "malformed: $frames: a number of frames" >&2; exit 2; }
CARGO=${CARGO:-cargo}
export TUTTI_HOSTILE_FRAMES=$frames budget_s=$((60 + frames / 500))
log=$(mktemp)
export log
trap 'rm -f "$log" "$log".*' EXIT

# One test: FOLDER PROGRAM NAME. Its output is shown only when it fails.
one_test() {
    local out start=$EPOCHREALTIME end status=0 result=ok
    out=$(mktemp "$log.XXXXXX")
    (cd "$1" && CARGO_MANIFEST_DIR=$1 timeout --foreground --kill-after=5 "$budget_s" "$2" --exact "$3" --nocapture) >"$out" 2>&1 </dev/null || status=$?
    end=$EPOCHREALTIME
    if [ $status != 0 ]; then
        # What a killed test has left in memory; those that run have names with their own numbers.
        for folder in /dev/shm/tutti-*-[0-9]*; do [ -d "/proc/${folder##*-}" ] || rm -rf "$folder"; done
        result=FAILED
        [ $status != 124 ] || result="OVER ITS BUDGET of $budget_s s"
        tail -c 100000 "$out"
    fi
    # As cargo has it, with the crate and the time: mk/nightly.sh reads it.
    printf 'test %s ... %s (tutti-%s, %d.%d s)\n' "$3" "$result" "${1##*/}" $(((${end/./} - ${start/./}) / 1000000)) \
        $(((${end/./} - ${start/./}) / 100000 % 10)) | tee -a "$log.results"
    rm -f "$out"
}
export -f one_test

"$CARGO" test --workspace --lib --bins --tests --no-run --message-format=json-render-diagnostics >"$log" || exit 1
while read -r line; do
    folder=$(sed -E 's/.*"manifest_path":"([^"]*)\/Cargo.toml".*/\1/' <<<"$line")
    program=$(sed -E 's/.*"executable":"([^"]*)".*/\1/' <<<"$line")
    # Tests of the whole system have doors of their own: `make soak-hostile`.
    case $folder in */tests | */bench) continue ;; esac
    listed=$("$program" --list --format terse nearly_right 2>&1) || { echo "malformed: $program cannot list its tests: $listed" >&2; exit 1; }
    sed -n 's/: test$//p' <<<"$listed" | while read -r name; do
        printf '%s\n%s\n%s\n' "$folder" "$program" "$name"
    done
done < <(grep '"reason":"compiler-artifact"' "$log" | grep '"test":true}' | grep '"executable":"') >"$log.tests"
touch "$log.results"
xargs -r -d '\n' -n 3 -P "$(nproc)" bash -c 'one_test "$@"' _ <"$log.tests"
passed=$(grep -c ' \.\.\. ok ' "$log.results") of=$(($(wc -l <"$log.tests") / 3))
echo "$passed of $of tests passed, $frames frames for each reader, $((SECONDS / 60)) min $((SECONDS % 60)) s"
[ "$passed" = "$of" ] && [ "$of" -gt 0 ]
