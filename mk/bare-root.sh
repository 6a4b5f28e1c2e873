#!/bin/bash
# bare-root.sh bookworm|trixie: the place of an archive with a bare root of that Debian: its minimum, ca-certificates, make, git
# and sudo. Made once, by mmdebstrap from this machine's own source of packages (root, the network), in target/fresh.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1
base=$PWD/target/fresh/$suite.tar
if [ ! -f "$base" ]; then
    echo "fresh: making a bare root of Debian $suite (about 1 min)" >&2
    mk/setup.sh mmdebstrap >&2
    mkdir -p "${base%/*}"
    # This machine's own source of packages, with the other version's name where it is another.
    here=$(. /etc/os-release && echo "$VERSION_CODENAME")
    sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | grep -E '^deb ' | sed "s/\b$here\b/$suite/g") || true
    if [ -z "$sources" ] && ls /etc/apt/sources.list.d/*.sources >/dev/null 2>&1; then
        sources=$(cat /etc/apt/sources.list.d/*.sources | sed "s/\b$here\b/$suite/g")
    fi
    settings=()
    while read -r setting; do settings+=(--aptopt="$setting"); done < <(apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|Retries)[:: ]' | grep -v '""' || true)
    mmdebstrap --quiet --format=tar --variant=minbase --include=ca-certificates,make,git,sudo "${settings[@]}" \
        "$suite" "$base.new" - <<<"$sources" || { rm -f "$base.new"; echo "fresh: no root of Debian $suite could be made" >&2; exit 1; }
    mv "$base.new" "$base"
fi
echo "$base"
