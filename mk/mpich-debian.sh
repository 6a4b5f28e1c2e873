#!/bin/bash
# mpich-debian.sh: sourced. Debian's MPICH, and programs that Debian has built for it, unpacked into target/peers/mpich-debian: nothing is
# installed. Sets root, lib, place and LD_LIBRARY_PATH. What cannot be had is one line in `missing`, and the status is 1.
mpich_debian() {
    local packages multiarch package
    place=$PWD/target/peers/mpich-debian root=$place/root
    packages=(mpich libmpich-dev libmpich12 libucx0 libfabric1 libhwloc15 libibverbs1 librdmacm1 libltdl7 libnl-3-200 libnl-route-3-200
        libnuma1 libgfortran5 libslurm38
        netpipe-mpich2 scalapack-mpi-test scalapack-test-common libscalapack-mpich2.2 libblas3 liblapack3
        nwchem-mpich nwchem-data libpython3.11
        bagel libboost-serialization1.74.0 libxc9 mocassin mocassin-data mocassin-benchmarks)
    if [ "$(cat "$place/with" 2>/dev/null)" != "${packages[*]}" ]; then
        rm -rf "$place.new"
        mkdir -p "$place.new/root"
        if ! (cd "$place.new" && timeout 300 apt-get -qq download "${packages[@]}" >apt.log 2>&1 </dev/null); then
            missing="Debian's MPICH cannot be had ($(grep -E '^E:' "$place.new/apt.log" | tail -1))"
            return 1
        fi
        for package in "$place.new"/*.deb; do
            dpkg-deb -x "$package" "$place.new/root" || { missing="$package cannot be unpacked"; return 1; }
        done
        rm -f "$place.new"/*.deb
        echo "${packages[*]}" >"$place.new/with"
        rm -rf "$place"
        mv "$place.new" "$place"
    fi
    multiarch=$(gcc -print-multiarch)
    lib=$root/usr/lib/$multiarch
    mpich_wrappers "$root/usr/include/$multiarch/mpich"
    export LD_LIBRARY_PATH=$lib:$root/lib/$multiarch:$lib/blas:$lib/lapack
}

# What its compiler wrappers do, for packages that are not in their place, and its launcher, in the folder bin. $1: where mpi.h is.
mpich_wrappers() {
    local modules
    modules=$(find "$root/usr" -name mpi_f08.mod -printf '%h' -quit)
    mkdir -p "$place/bin"
    wrapper mpicc gcc "-I$1" "-lmpich"
    wrapper mpicxx g++ "-I$1" "-l:libmpichcxx.so.12 -lmpich"
    wrapper mpifort gfortran "-I$1 -I${modules:-$1} -fallow-argument-mismatch" "-l:libmpichfort.so.12 -lmpich"
    ln -sfn "$root/usr/bin/mpiexec.hydra" "$place/bin/mpiexec"
    ln -sfn "$root/usr/bin/hydra_pmi_proxy" "$place/bin/hydra_pmi_proxy"
}

# wrapper NAME COMPILER FLAGS LIBRARIES
wrapper() {
    cat >"$place/bin/$1" <<HERE
#!/bin/sh
exec $2 $3 "\$@" -L$lib $4 -Wl,-rpath,$lib -Wl,--allow-shlib-undefined
HERE
    chmod +x "$place/bin/$1"
}
