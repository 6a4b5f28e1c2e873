#!/bin/bash
# nightly.sh HOURS [PART...]: all that is random, with fresh seeds, within a bound in hours. Parts: channel, sched, daemon,
# operations (simulators), inputs (the tests of the crates, whose random inputs `make test` leaves the same), loom, fuzz, frames
# (nearly right, for every reader and at every door), freezes (turns and freezes of real processes), kills (every part of a
# cluster of lab machines, and of two users' jobs, is killed and stopped, for ten minutes of each hour's share at least).
#
# A failure does not end the night: the seed that the test printed is added to tests/seeds.txt, an input that a fuzzer found
# to tests/fuzz-found/, the output stays in target/nightly. At the end a row is added to docs/benchmarks/nightly.md. The status is
# 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
hours=${1:?usage: nightly.sh HOURS [PART...]}
shift
total_s=$(awk -v h="$hours" 'BEGIN { printf "%d", h * 3600 }')
[ "$total_s" -ge 60 ] || { echo "nightly: HOURS=$hours: at least 0.02" >&2; exit 2; }
parts=("$@")
[ $# -gt 0 ] || parts=(channel sched daemon operations inputs loom fuzz frames freezes kills)
# Shares of the time. Kills have ten minutes at least, if there are so many.
declare -A share=([channel]=16 [sched]=16 [daemon]=16 [operations]=10 [inputs]=6 [loom]=5 [fuzz]=15 [frames]=6 [freezes]=8 [kills]=8)
sum=0
for part in "${parts[@]}"; do
    [ -n "${share[$part]:-}" ] || { echo "nightly: no part $part; there are: ${!share[*]}" >&2; exit 2; }
    sum=$((sum + share[$part]))
done
place=target/nightly
mkdir -p $place
seeds=tests/seeds.txt
CARGO=${CARGO:-cargo}
started=$(date -u +%Y-%m-%d)
failed=0
declare -A result
# Fresh ones, and the next night's are others.
first=$(($(date +%s) * 1000))

# within SECONDS COMMAND...: its output goes to the part's log; what is ended by the limit has not failed.
within() {
    local limit=$1 status=0
    shift
    timeout --kill-after=10 "$limit" "$@" >>"$log" 2>&1 </dev/null || status=$?
    [ $status != 124 ] || status=0
    return $status
}

# keep PACKAGE TEST [SETTING]: the seed that the failing test has printed last, or the setting.
keep() {
    local setting line
    setting=${3:-$(grep -oE 'TUTTI_(SIM|TEST)_SEED=[0-9]+' "$log" | tail -1)}
    [ -n "$setting" ] || return 0
    line="$1 $2 $setting"
    grep -qxF "$line" $seeds 2>/dev/null || echo "$line" >>$seeds
    echo "nightly: $line: kept in $seeds"
}

# failed_test: the names of the failing tests in the log of cargo.
failed_test() { sed -nE 's/^test ([^ ]+) \.\.\. FAILED.*/\1/p' "$log" | tail -1; }

# rounds SECONDS PACKAGE TARGET FILTER VARIABLE: the tests again and again, each time with another seed.
rounds() {
    local end package=$2 filter=$4 variable=$5 count=0
    local target=$3
    # shellcheck disable=SC2086
    "$CARGO" test --quiet -p "$package" $target --no-run >>"$log" 2>&1 || return 1
    # The build is not of the night's time, and one seed is tried in any case.
    end=$((SECONDS + $1))
    while [ $count = 0 ] || [ $SECONDS -lt $end ]; do
        first=$((first + 1000))
        # shellcheck disable=SC2086
        if ! within $(((end > SECONDS ? end - SECONDS : 0) + 120)) env "$variable=$first" "$CARGO" test -p "$package" $target -- "$filter"; then
            keep "$package" "$(failed_test)"
            return 1
        fi
        count=$((count + 1))
        # Of what went well nobody reads the output.
        tail -c 100000 "$log" >"$log.end" && mv "$log.end" "$log"
    done
    result[$part]="$count seeds"
}

# soak SECONDS PACKAGE TARGET TEST REPLAYED_BY: an ignored test that counts its seeds itself.
soak() {
    # shellcheck disable=SC2086
    if within $(($1 + 600)) env TUTTI_SIM_SECONDS="$1" "$CARGO" test -p "$2" $3 -- --nocapture --ignored "$4"; then
        result[$part]="$(grep -oE '^[0-9]+ seeds from' "$log" | tail -1 | cut -d' ' -f1) seeds"
    else
        keep "$2" "$5"
        return 1
    fi
}

part_channel() { soak "$1" tutti-channel "--test simulation" soak simulation_delivers_every_record_once_in_order; }
part_sched() { soak "$1" tutti-sched "--test simulation" soak soak; }
part_daemon() { rounds "$1" tutti-daemon --lib sim:: TUTTI_SIM_SEED; }
part_operations() { rounds "$1" tutti-runtime "--test remote_operations" remote_operations_are_done TUTTI_TEST_SEED; }
part_inputs() {
    local end=$((SECONDS + $1)) count=0 crate
    while [ $count = 0 ] || [ $SECONDS -lt $end ]; do
        first=$((first + 1))
        for crate in $(grep -rlE 'proptest!|testkit::(random::)?seed\(' crates --include='*.rs' | cut -d/ -f2 | sort -u); do
            crate=tutti-$crate
            within 1200 env PROPTEST_RNG_SEED=$first TUTTI_TEST_SEED=$first "$CARGO" test -p "$crate" --lib --bins --tests ||
                { keep_input "$crate"; return 1; }
        done
        count=$((count + 1))
        tail -c 100000 "$log" >"$log.end" && mv "$log.end" "$log"
    done
    result[$part]="$count seeds"
}
# keep_input PACKAGE: the test that failed, with the seed that its inputs follow from.
keep_input() {
    local failing variable=TUTTI_TEST_SEED
    failing=$(failed_test)
    ! grep -q '^proptest: ' "$log" || variable=PROPTEST_RNG_SEED
    keep "$1" "$failing" "$variable=$first"
}
part_loom() {
    # As many preemptions as the time allows: two are what `make test` searches.
    within "$1" env LOOM_MAX_PREEMPTIONS=3 "${MAKE:-make}" --no-print-directory loom
    local status=$?
    result[$part]="up to 3 preemptions"
    return $status
}
part_fuzz() {
    local targets=7
    within $(($1 + 1800)) "${MAKE:-make}" --no-print-directory fuzz FUZZ_SECONDS=$(($1 / targets))
    local status=$? found
    result[$part]="$(($1 / targets)) s a target"
    if [ $status != 0 ]; then
        mkdir -p tests/fuzz-found
        for found in target/fuzz/*-crash-* target/fuzz/*-timeout-* target/fuzz/*-oom-*; do
            [ ! -f "$found" ] || { cp "$found" tests/fuzz-found/; echo "nightly: ${found##*/}: kept in tests/fuzz-found"; }
        done
    fi
    return $status
}
part_frames() {
    local end=$((SECONDS + $1)) failing
    within $(($1 + 3600)) mk/malformed.sh 1000000 || {
        # test NAME ... FAILED (CRATE, 1.2 s)
        failing=$(sed -nE 's/^test ([^ ]+) \.\.\. FAILED \(([^,]+),.*/\2 \1/p' "$log" | tail -1)
        # shellcheck disable=SC2086
        [ -z "$failing" ] || keep $failing
        return 1
    }
    within $(((end > SECONDS ? end - SECONDS : 0) + 600)) "$CARGO" test -p tutti-tests --test hostile -- --nocapture --ignored --test-threads 1 \
        malformed_frames_at_each_door_harm_nobody_soak || return 1
    result[$part]="1000000 a reader"
}
part_freezes() {
    local end=$((SECONDS + $1)) count=0
    while [ $SECONDS -lt $end ]; do
        within $((end - SECONDS + 300)) env TUTTI_TURNS=20000 "$CARGO" test -p tutti-tests --test gang -- --nocapture --ignored \
            messages_arrive_once_in_order_soak || return 1
        within $((end - SECONDS + 300)) "$CARGO" test -p tutti-tests --test network -- freezes || return 1
        count=$((count + 1))
    done
    result[$part]="$count x 20000 turns"
}
part_kills() {
    local end=$((SECONDS + $1)) count=0
    while [ $SECONDS -lt $end ]; do
        within $((end - SECONDS + 600)) env TUTTI_FAULT_TIMES=5 "$CARGO" test -p tutti-tests --test cluster -- --nocapture --ignored \
            --test-threads 1 each_fault || { keep tutti-tests "$(failed_test)"; return 1; }
        [ $SECONDS -lt $end ] || { count=$((count + 5)); break; }
        within $((end - SECONDS + 600)) env TUTTI_FAULT_TIMES=2 "$CARGO" test -p tutti-tests --test hostile -- --nocapture --ignored \
            --test-threads 1 faults_of_two_users_jobs_repeated || { keep tutti-tests "$(failed_test)"; return 1; }
        count=$((count + 5))
    done
    result[$part]="each fault $count times"
}

for part in "${parts[@]}"; do
    seconds=$((total_s * share[$part] / sum))
    [ "$part" != kills ] || [ "$total_s" -lt 7200 ] || [ "$seconds" -ge 600 ] || seconds=600
    log=$place/$part.log
    : >"$log"
    echo "nightly: $part, $((seconds / 60)) min $((seconds % 60)) s"
    if "part_$part" "$seconds"; then
        echo "nightly: $part: ${result[$part]:-done}"
    else
        result[$part]="FAILED"
        failed=$((failed + 1))
        echo "nightly: $part: FAILED: $(grep -E "panicked at|FAILED|error" "$log" | head -1); all of it: $log"
    fi
done

row="| $started | $(git rev-parse --short HEAD) | $hours | $(nproc) |"
for part in channel sched daemon operations loom fuzz freezes kills frames inputs; do row+=" ${result[$part]:--} |"; done
echo "$row" >>docs/benchmarks/nightly.md
echo "$row"
[ $failed = 0 ]
