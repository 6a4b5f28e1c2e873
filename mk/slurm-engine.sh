#!/bin/bash
# slurm-engine.sh: a real Slurm around the tree DIST. Its packages are downloaded to PLACE and unpacked over /usr, /etc and /var of
# namespaces of their own; nothing is installed. Ends with `N passed, N failed, N skipped`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
skip() { echo "slurm: skipped: $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
[ "$(id -u)" = 0 ] || skip "needs root"
command -v apt-get >/dev/null || skip "needs apt-get"
mkdir -p "$PLACE/debs/partial"
if [ ! -f "$PLACE/debs/complete" ]; then
    apt-get install --download-only --yes --no-install-recommends --reinstall -o "Dir::Cache::archives=$PLACE/debs" \
        slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge >"$PLACE/download.log" 2>&1 || skip "Debian's packages are not to be had ($PLACE/download.log)"
    touch "$PLACE/debs/complete"
fi
exec unshare --mount --net --pid --ipc --uts --fork --kill-child tests/slurm/engine/inside.sh
