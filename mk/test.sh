#!/bin/bash
# test.sh: runs every test of the workspace, each with a time limit, and ends with the time of each group of tests, the slowest
# ten, and `N passed, N failed, N skipped`.
# A test that cannot run here (no root, no cgroup, no network namespace, no peer) counts as skipped, with its reason:
# crates/testkit/src/skip.rs. TUTTI_REQUIRE=root,cgroup,netns turns such skips into failures.
# test.sh quick: the tests of the crates only, without the whole-system tests.
# With cargo-nextest limits and groups are those of .config/nextest.toml. Without it (nothing is installed for it) the test
# programs are built by cargo and every test is run here as a process of its own under timeout(1), with the same limits.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
CARGO=${CARGO:-cargo}
log=$(mktemp)
trap 'rm -rf "$log" "$log".*' EXIT
passed=0 failed=0
# Random inputs are the same in each run, so that a run judges the change and not the day. `make nightly` draws others
# (mk/nightly.sh, part inputs).
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1} TUTTI_TEST_SEED=${TUTTI_TEST_SEED:-1}
export TUTTI_SKIPPED=$log.skipped
: >"$TUTTI_SKIPPED"
# GROUP SECONDS TEST, one line per test: a crate, or a subject of the whole system.
times=$log.times
: >"$times"
what=(--workspace)
[ "${1:-}" != quick ] || what+=(--exclude tutti-tests --exclude tutti-bench)

with_nextest() {
    local junit=${CARGO_TARGET_DIR:-target}/nextest/default/junit.xml
    rm -f "$junit"
    "$CARGO" nextest run "${what[@]}" --no-tests=pass --no-fail-fast 2>&1 | tee "$log"
    local status=${PIPESTATUS[0]} summary
    # Summary [   0.020s] 12 tests run: 11 passed, 1 failed, 0 skipped
    summary=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -E '^ *Summary ' | tail -1)
    passed=$(grep -oE '[0-9]+ passed' <<<"$summary" | grep -oE '[0-9]+')
    failed=$(grep -oE '[0-9]+ (failed|timed out|exec failed)' <<<"$summary" | grep -oE '^[0-9]+' | awk "{s += \$1} END {print s + 0}")
    passed=${passed:-0} failed=${failed:-0}
    [ "$status" = 0 ] || [ "$failed" -gt 0 ] || failed=1
    # <testcase name="window::opens" classname="tutti-channel::simulation" timestamp="..." time="0.012">
    [ ! -f "$junit" ] || sed -nE 's/^ *<testcase name="([^"]*)" classname="([^"]*)".* time="([0-9.]*)".*/\2 \3 \1/p' "$junit" |
        sed -E 's/^tutti-tests::/tests\//; s/^(tutti-[a-z-]*)(::[^ ]*)? /\1 /' >"$times"
    return "$status"
}

# One test: FOLDER PROGRAM NAME LIMIT_S GROUP. Its output is shown only when it fails.
one_test() {
    local out start=$EPOCHREALTIME end limit=$4
    out=$(mktemp "$log.XXXXXX")
    # As in .config/nextest.toml: simulations compute all the time.
    case $3 in *simulation* | *sim::* | *rtr_model* | *remote_floods*) limit=120 ;; esac
    if (cd "$1" && CARGO_MANIFEST_DIR=$1 setsid timeout --kill-after=5 "$limit" "$2" --exact "$3" --nocapture) \
        >"$out" 2>&1 </dev/null; then
        echo ok >>"$log.results"
    else
        local status=$?
        echo failed >>"$log.results"
        { [ $status = 124 ] && echo "FAIL $3 (over its limit of $limit s)" || echo "FAIL $3"; cat "$out"; } >&2
    fi
    rm -f "$out"
    end=$EPOCHREALTIME
    printf '%s %d.%03d %s\n' "$5" $(((${end/./} - ${start/./}) / 1000000)) $(((${end/./} - ${start/./}) / 1000 % 1000)) "$3" >>"$times"
}

without_nextest() {
    echo "cargo-nextest is not here: each test runs under timeout(1); building the tests ..."
    # What the compiler has to say comes as text on stderr.
    "$CARGO" test "${what[@]}" --no-run --message-format=json-render-diagnostics >"$log" || { failed=1; return 1; }
    : >"$log.results"
    export -f one_test
    export log times
    local line folder program limit jobs group start before
    while read -r line; do
        folder=$(sed -E 's/.*"manifest_path":"([^"]*)\/Cargo.toml".*/\1/' <<<"$line")
        program=$(sed -E 's/.*"executable":"([^"]*)".*/\1/' <<<"$line")
        group=$(sed -E 's/.*"name":"([^"]*)".*/\1/' <<<"${line#*\"target\":}")
        # The whole-system tests start jobs of many ranks: one at a time.
        case $folder in
        */tests) limit=120 jobs=1 group=tests/$group ;;
        *) limit=60 jobs=$(nproc) group=tutti-${folder##*/} ;;
        esac
        start=$SECONDS before=$(wc -l <"$log.results")
        "$program" --list --format terse 2>/dev/null | sed -n 's/: test$//p' |
            xargs -r -d '\n' -P "$jobs" -I{} bash -c 'one_test "$@"' _ "$folder" "$program" {} "$limit" "$group"
        tail -n +$((before + 1)) "$log.results" | awk -v name="$group" -v s=$((SECONDS - start)) '
            { count[$1]++ } END { if (NR) printf "%s: %d passed, %d failed (%d s)\n", name, count["ok"], count["failed"], s }'
    done < <(grep '"reason":"compiler-artifact"' "$log" | grep '"test":true}' | grep '"executable":"')
    passed=$(grep -c '^ok' "$log.results")
    failed=$(grep -c '^failed' "$log.results")
    [ "$failed" = 0 ]
}

# Each seed of tests/seeds.txt once more, by the test that it failed.
replay_seeds() {
    local package test setting status=0
    while read -r package test setting; do
        case $package in '#'* | '') continue ;; esac
        if env "$setting" timeout --kill-after=5 300 "$CARGO" test --quiet -p "$package" --lib --tests -- --include-ignored --exact "$test" >"$log" 2>&1 </dev/null; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1)) status=1
            echo "FAIL $package $test with $setting (tests/seeds.txt)" >&2
            cat "$log" >&2
        fi
    done <tests/seeds.txt
    return $status
}

doc_tests() {
    local start=$SECONDS
    timeout --kill-after=5 600 "$CARGO" test "${what[@]}" --doc --quiet 2>&1 | tee "$log" | grep -vE "^$|running 0 tests|0 passed; 0 failed|doc tests are not supported"
    local status=${PIPESTATUS[0]} more
    more=$(sed -nE 's/^test result:.* ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/p' "$log" |
        awk '{p += $1; f += $2} END {print p + 0, f + 0}')
    passed=$((passed + ${more% *})) failed=$((failed + ${more#* }))
    [ "$status" = 0 ] || [ "${more#* }" -gt 0 ] || failed=$((failed + 1))
    echo "documentation $((SECONDS - start)) (examples in the documentation, compiled and run)" >>"$times"
    return "$status"
}

# A line per group, then the slowest tests.
report_times() {
    [ -s "$times" ] || return 0
    echo
    echo "The tests took $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s."
    echo "Time of each group of tests, s (the sum of its tests'; some run side by side):"
    awk '{ s[$1] += $2; n[$1]++ } END { for (g in s) printf "%8.1f %s (%d)\n", s[g], g, n[g] }' "$times" | sort -rn
    echo "The slowest ten, s:"
    sort -k2,2 -rn "$times" | head -10 | while read -r group s name; do printf '%8.1f %s %s\n' "$s" "$group" "$name"; done
    echo
}

start=$SECONDS
status=0
if "$CARGO" nextest --version >/dev/null 2>&1 && [ -z "${TUTTI_TEST_PLAIN:-}" ]; then
    with_nextest || status=1
else
    without_nextest || status=1
fi
replay_seeds || status=1
[ "${1:-}" = quick ] || doc_tests || status=1
report_times
# Of whole tests that were skipped the harness knows only that they did not fail.
grep '^in part: ' "$TUTTI_SKIPPED" | sort -u
grep '^skipped: ' "$TUTTI_SKIPPED" | sort -u
skipped=$(sed -n 's/^skipped: \([^ ]*\) .*/\1/p' "$TUTTI_SKIPPED" | sort -u | wc -l)
echo "$((passed - skipped)) passed, $failed failed, $skipped skipped"
exit $status
