#!/bin/bash
# build.sh FIRST SECOND: two calls of `cargo build`, each given as its options in one word, side by side: the first is a chain
# that has one core busy, the second fills the others. The first one's output comes at its end.
set -euo pipefail
mkdir -p target/dist-work
touch target/.build-started
log=$(mktemp)
# A group of its own, which ends with us: cargo alone would leave its compilers behind.
# shellcheck disable=SC2086
setsid "${CARGO:-cargo}" build $1 >"$log" 2>&1 </dev/null &
first=$!
trap 'kill -- -$first 2>/dev/null || true; rm -f "$log"' EXIT
# shellcheck disable=SC2086
"${CARGO:-cargo}" build $2
status=0
wait $first || status=$?
if [ $status != 0 ]; then cat "$log" >&2; else grep -vE '^ *(Compiling|Finished|Blocking|Updating|Locking|Download|Adding)' "$log" >&2 || true; fi
exit $status
