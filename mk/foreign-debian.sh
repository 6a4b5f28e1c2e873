#!/bin/bash
# foreign-debian.sh: tests/foreign with Debian's MPICH, and with programs that Debian has built for it, none of them installed. What
# cannot be had skips it with one line.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$PWD/target/peers/mpich-debian
packages=(mpich libmpich-dev libmpich12 libucx0 libfabric1 libhwloc15 libibverbs1 librdmacm1 libltdl7 libnl-3-200 libnl-route-3-200
    libnuma1 libgfortran5 libslurm38
    netpipe-mpich2 scalapack-mpi-test scalapack-test-common libscalapack-mpich2.2 libblas3 liblapack3
    nwchem-mpich nwchem-data libpython3.11
    bagel libboost-serialization1.74.0 libxc9 mocassin mocassin-data mocassin-benchmarks)

if [ "$(cat "$place/with" 2>/dev/null)" != "${packages[*]}" ]; then
    rm -rf "$place.new"
    mkdir -p "$place.new/root"
    if ! (cd "$place.new" && timeout 300 apt-get -qq download "${packages[@]}" >apt.log 2>&1 </dev/null); then
        echo "skipped: Debian's MPICH cannot be had ($(grep -E '^E:' "$place.new/apt.log" | tail -1))"
        exit 0
    fi
    for package in "$place.new"/*.deb; do dpkg-deb -x "$package" "$place.new/root"; done
    rm -f "$place.new"/*.deb
    echo "${packages[*]}" >"$place.new/with"
    rm -rf "$place"
    mv "$place.new" "$place"
fi
root=$place/root
multiarch=$(gcc -print-multiarch)
lib=$root/usr/lib/$multiarch
# What its mpicc does, for packages that are not in their place.
cat >"$place/mpicc" <<HERE
#!/bin/sh
exec gcc -I$root/usr/include/$multiarch/mpich "\$@" -L$lib -lmpich -Wl,-rpath,$lib -Wl,--allow-shlib-undefined
HERE
chmod +x "$place/mpicc"
export LD_LIBRARY_PATH=$lib:$root/lib/$multiarch:$lib/blas:$lib/lapack
export TUTTI_FOREIGN_MPICC=$place/mpicc FOREIGN_MPICH_PACKAGES=$root
timeout --kill-after=5 900 "${CARGO:-cargo}" test -p tutti-tests --test foreign -- --test-threads 1 --include-ignored mpich
