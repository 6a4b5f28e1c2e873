#!/bin/bash
# foreign-debian.sh: tests/foreign with Debian's MPICH, and with programs that Debian has built for it, none of them installed. What
# cannot be had skips it with one line.
set -euo pipefail
cd "$(dirname "$0")/.."
. mk/mpich-debian.sh
mpich_debian || { echo "skipped: $missing"; exit 0; }
export TUTTI_FOREIGN_MPICC=$place/bin/mpicc FOREIGN_MPICH_PACKAGES=$root
timeout --kill-after=5 900 "${CARGO:-cargo}" test -p tutti-tests --test foreign -- --test-threads 1 --include-ignored mpich
