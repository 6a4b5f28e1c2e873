#!/bin/bash
# foreign-open-mpi.sh [machines]: tests/foreign with Debian's Open MPI, and with programs that Debian has built for it, none of them
# installed; `machines`: those programs on two machines of the lab. What cannot be had skips it with one line.
set -euo pipefail
cd "$(dirname "$0")/.."
. mk/open-mpi-debian.sh
programs=(hpcc netpipe-openmpi lammps gromacs getdp)
open_mpi_debian || { echo "skipped: $missing"; exit 0; }
# What its mpicc does, for packages that are not in their place.
cat >"$place/mpicc" <<HERE
#!/bin/sh
exec gcc -I$lib/openmpi/include "\$@" -L$lib -l:libmpi.so.40 -Wl,-rpath,$lib -Wl,--allow-shlib-undefined
HERE
chmod +x "$place/mpicc"
export FOREIGN_PACKAGES=$root TUTTI_FOREIGN_OMPICC=$place/mpicc
case ${1:-} in
machines) tests=(packages_run_on_machines) ;;
# Programs of unserved.rs are started without the variables by which they find what is unpacked here.
*) tests=(open_mpi --skip packages_run_on_machines --skip unserved::) ;;
esac
timeout --kill-after=5 1800 "${CARGO:-cargo}" test -p tutti-tests --test foreign -- --test-threads 1 --include-ignored "${tests[@]}"
