#!/bin/bash
# test.sh: runs every test of the workspace, each with a time limit, and ends with `N passed, N failed, N skipped`.
# A test that cannot run here (no root, no cgroup, no network namespace, no peer) counts as skipped, with its reason:
# crates/testkit/src/skip.rs. TUTTI_REQUIRE=root,cgroup,netns turns such skips into failures.
# test.sh quick: the tests of the crates only, without the whole-system tests.
# With cargo-nextest the limits are those of .config/nextest.toml. Without it (nothing is installed for it) the test
# programs are built by cargo and every test is run here as a process of its own under timeout(1).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
CARGO=${CARGO:-cargo}
log=$(mktemp)
trap 'rm -rf "$log" "$log".*' EXIT
passed=0 failed=0
export TUTTI_SKIPPED=$log.skipped
: >"$TUTTI_SKIPPED"
what=(--workspace)
[ "${1:-}" != quick ] || what+=(--exclude tutti-tests --exclude tutti-bench)

with_nextest() {
    "$CARGO" nextest run "${what[@]}" --no-tests=pass --no-fail-fast 2>&1 | tee "$log"
    local status=${PIPESTATUS[0]} summary
    # Summary [   0.020s] 12 tests run: 11 passed, 1 failed, 0 skipped
    summary=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -E '^ *Summary ' | tail -1)
    passed=$(grep -oE '[0-9]+ passed' <<<"$summary" | grep -oE '[0-9]+')
    failed=$(grep -oE '[0-9]+ (failed|timed out|exec failed)' <<<"$summary" | grep -oE '^[0-9]+' | awk "{s += \$1} END {print s + 0}")
    passed=${passed:-0} failed=${failed:-0}
    [ "$status" = 0 ] || [ "$failed" -gt 0 ] || failed=1
    return "$status"
}

# One test: FOLDER PROGRAM NAME LIMIT_S. Its output is shown only when it fails.
one_test() {
    local out
    out=$(mktemp "$log.XXXXXX")
    if (cd "$1" && CARGO_MANIFEST_DIR=$1 setsid timeout --kill-after=5 "$4" "$2" --exact "$3" --nocapture) \
        >"$out" 2>&1 </dev/null; then
        echo ok >>"$log.results"
    else
        local status=$?
        echo failed >>"$log.results"
        { [ $status = 124 ] && echo "FAIL $3 (over its limit of $4 s)" || echo "FAIL $3"; cat "$out"; } >&2
    fi
}

without_nextest() {
    echo "cargo-nextest is not here: each test runs under timeout(1)"
    "$CARGO" test "${what[@]}" --no-run --message-format=json >"$log" || { failed=1; return 1; }
    : >"$log.results"
    export -f one_test
    export log
    local line folder program limit jobs
    while read -r line; do
        folder=$(sed -E 's/.*"manifest_path":"([^"]*)\/Cargo.toml".*/\1/' <<<"$line")
        program=$(sed -E 's/.*"executable":"([^"]*)".*/\1/' <<<"$line")
        # The whole-system tests start jobs of many ranks: one at a time.
        case $folder in */tests) limit=120 jobs=1 ;; *) limit=60 jobs=$(nproc) ;; esac
        "$program" --list --format terse 2>/dev/null | sed -n 's/: test$//p' |
            xargs -r -d '\n' -P "$jobs" -I{} bash -c 'one_test "$@"' _ "$folder" "$program" {} "$limit"
    done < <(grep '"reason":"compiler-artifact"' "$log" | grep '"test":true}' | grep '"executable":"')
    passed=$(grep -c '^ok' "$log.results")
    failed=$(grep -c '^failed' "$log.results")
    [ "$failed" = 0 ]
}

doc_tests() {
    timeout --kill-after=5 600 "$CARGO" test "${what[@]}" --doc --quiet 2>&1 | tee "$log" | grep -vE "^$|running 0 tests|0 passed; 0 failed|doc tests are not supported"
    local status=${PIPESTATUS[0]} more
    more=$(sed -nE 's/^test result:.* ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/p' "$log" |
        awk '{p += $1; f += $2} END {print p + 0, f + 0}')
    passed=$((passed + ${more% *})) failed=$((failed + ${more#* }))
    [ "$status" = 0 ] || [ "${more#* }" -gt 0 ] || failed=$((failed + 1))
    return "$status"
}

status=0
if "$CARGO" nextest --version >/dev/null 2>&1 && [ -z "${TUTTI_TEST_PLAIN:-}" ]; then
    with_nextest || status=1
else
    without_nextest || status=1
fi
[ "${1:-}" = quick ] || doc_tests || status=1
# Of whole tests that were skipped the harness knows only that they did not fail.
grep '^in part: ' "$TUTTI_SKIPPED" | sort -u
grep '^skipped: ' "$TUTTI_SKIPPED" | sort -u
skipped=$(sed -n 's/^skipped: \([^ ]*\) .*/\1/p' "$TUTTI_SKIPPED" | sort -u | wc -l)
echo "$((passed - skipped)) passed, $failed failed, $skipped skipped"
exit $status
