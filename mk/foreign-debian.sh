#!/bin/bash
# foreign-debian.sh [machines]: tests/foreign with Debian's MPICH, and with programs that Debian has built for it, none of them
# installed; `machines`: those programs on two machines of the lab. What cannot be had skips it with one line.
set -euo pipefail
cd "$(dirname "$0")/.."
. mk/mpich-debian.sh
mpich_debian || { echo "skipped: $missing"; exit 0; }
export TUTTI_FOREIGN_MPICC=$place/bin/mpicc FOREIGN_MPICH_PACKAGES=$root
case ${1:-} in
machines) tests=(mpich_packages_run_on_machines) ;;
# Debian's MPICH itself starts no processes (findings/mpich-of-debian-starts-no-processes.sh). Programs of unserved.rs are started
# without the variables by which they find what is unpacked here; two tests are about the wheel, which would find Debian's libraries.
*) tests=(mpich --skip mpich_packages_run_on_machines --skip mpich::mpich_program_starts_processes --skip unserved::
    --skip mpich::mpich_library_that_a_program_opens_by_its_path --skip stand_in::mpich_binary_that_looks_into_its_own_folders) ;;
esac
timeout --kill-after=5 1800 "${CARGO:-cargo}" test -p tutti-tests --test foreign -- --test-threads 1 --include-ignored "${tests[@]}"
