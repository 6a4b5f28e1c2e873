#!/bin/bash
# upgrade.sh [last|next]: tests/upgrade with the trees that it needs. target/upgrade/RELEASE is the last release, built once from its commit
# (mk/last-release) and kept; target/upgrade/next is this source with feature next-wire. `last`: the first of them is built and
# nothing else is done; `next`: only the upgrade to the second of them is tried.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD target=$PWD/target place=$PWD/target/upgrade cargo=${CARGO:-cargo}
read -r release commit < <(grep -v '^#' mk/last-release)
mkdir -p "$place/next"

last=$place/$release-${commit:0:12}
if [ ! -d "$last/dist" ] && [ "${1:-}" != next ]; then
    if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
        echo "upgrade: commit $commit (release $release) is not in this clone: git fetch --unshallow" >&2
        exit 1
    fi
    echo "upgrade: building release $release (minutes, once)"
    # What was interrupted goes on: the archive's files have the time of their commit.
    mkdir -p "$last.new/source"
    git archive "$commit" | tar -x -C "$last.new/source"
    # Nobody measures this tree: it is built quickly.
    (cd "$last.new/source" && CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 make dist TARGET="$last.new/source/target" >"$last.new/log" 2>&1) ||
        { tail -20 "$last.new/log" >&2; exit 1; }
    # A tree can be moved; what it was built from is not needed any more.
    mv "$last.new/source/target/dist" "$last.new/dist"
    rm -rf "$last.new/source"
    mv "$last.new" "$last"
fi
[ "${1:-}" != last ] || exit 0

# In the same folder, so that what has not changed is there; the programs of target/dist are put back behind it.
echo "upgrade: building this release with a kind of message and a field more"
features=tutti-protocol/next-wire,tutti-shm/next-wire,tutti-starter/next-wire,tutti-daemon/next-wire
build=("$cargo" build --quiet --profile commands --workspace --exclude tutti-bench --exclude tutti-tests)
"${build[@]}" --features "$features"
ln -sfn ../../commands "$place/next/commands"
"$target/commands/tutti-dist" "$root" "$place/next" commands commands
"${build[@]}"

export TUTTI_UPGRADE_LAST=$last/dist TUTTI_UPGRADE_LAST_RELEASE=$release TUTTI_UPGRADE_NEXT=$place/next/dist
tests=()
[ "${1:-}" != next ] || tests=(upgrade_to_a_release_with_a_kind_of_message_more_loses_no_job)
timeout --kill-after=5 1800 "$cargo" test -p tutti-tests --test upgrade -- --ignored --nocapture --test-threads 1 "${tests[@]}"
