#!/bin/bash
# peer-packages.sh: HPCC and NetPIPE as Debian has built them for Open MPI, unpacked in target/peers/packages. Silent when they are
# there; when they cannot be had, one line on stderr says why, and the status is 1. Calls at the same time wait for each other.
set -euo pipefail
cd "$(dirname "$0")/.."
peers=$PWD/target/peers
mkdir -p "$peers"
exec 8>"$peers/.packages-lock"
flock 8
[ ! -d "$peers/packages" ] || exit 0
failed() {
    echo "HPCC and NetPIPE cannot be had from Debian: $1" >&2
    exit 1
}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || failed "there is no apt-get here"
rm -rf "$peers/packages.new"
mkdir -p "$peers/packages.new"
cd "$peers/packages.new"
timeout --kill-after=5 60 apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
    download hpcc netpipe-openmpi libblas3 >log 2>&1 </dev/null || failed "$(grep -E '^E:' log | tail -1)"
for package in *.deb; do dpkg-deb -x "$package" .; done
rm -f ./*.deb log
mv "$peers/packages.new" "$peers/packages"
