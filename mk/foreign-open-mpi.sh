#!/bin/bash
# foreign-open-mpi.sh: tests/foreign with Debian's Open MPI, and with programs that Debian has built for it, none of them
# installed. What cannot be had skips it with one line.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$PWD/target/peers/openmpi-debian
packages=(openmpi-bin openmpi-common libopenmpi3 libopenmpi-dev libpmix2 libmunge2 libevent-core-2.1-7 libevent-pthreads-2.1-7
    libhwloc15 libnuma1 libucx0 libfabric1 libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 libpsm2-2 libltdl7)
programs=(hpcc netpipe-openmpi lammps gromacs getdp)

if [ ! -d "$place/root/usr/bin/lmp" ]; then
    rm -rf "$place.new"
    mkdir -p "$place.new/root"
    # With what this machine lacks of what the programs need.
    mapfile -t more < <(apt-get install --simulate --no-install-recommends "${programs[@]}" 2>/dev/null | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
    mapfile -t all < <(printf '%s\n' "${packages[@]}" "${programs[@]}" "${more[@]}" | sort -u)
    if ! (cd "$place.new" && timeout 300 apt-get -qq download "${all[@]}" >apt.log 2>&1 </dev/null); then
        echo "skipped: Debian's Open MPI cannot be had ($(grep -E '^E:' "$place.new/apt.log" | tail -1))"
        exit 0
    fi
    for package in "$place.new"/*.deb; do dpkg-deb -x "$package" "$place.new/root"; done
    rm -f "$place.new"/*.deb
    # As on a Debian of today, where /lib is a link.
    if [ -d "$place.new/root/lib" ]; then
        cp -a "$place.new/root/lib/." "$place.new/root/usr/lib/"
        rm -rf "$place.new/root/lib"
    fi
    rm -rf "$place"
    mv "$place.new" "$place"
fi
root=$place/root
multiarch=$(gcc -print-multiarch)
lib=$root/usr/lib/$multiarch
# What its mpicc does, for packages that are not in their place.
cat >"$place/mpicc" <<HERE
#!/bin/sh
exec gcc -I$lib/openmpi/include "\$@" -L$lib -l:libmpi.so.40 -Wl,-rpath,$lib -Wl,--allow-shlib-undefined
HERE
chmod +x "$place/mpicc"
export LD_LIBRARY_PATH=$lib:$lib/blas:$lib/lapack FOREIGN_PACKAGES=$root TUTTI_FOREIGN_OMPICC=$place/mpicc
export OPAL_PREFIX=$root/usr OPAL_LIBDIR=$lib/openmpi/lib OPAL_PKGLIBDIR=$lib/openmpi/lib/openmpi3
export OPAL_PKGDATADIR=$root/usr/share/openmpi PMIX_INSTALL_PREFIX=$lib/pmix2
# Components for networks that are not here, whose libraries were not unpacked, are passed over without a word.
export OMPI_MCA_mca_base_component_show_load_errors=0
timeout --kill-after=5 900 "${CARGO:-cargo}" test -p tutti-tests --test foreign -- --test-threads 1 --include-ignored open_mpi
