#!/bin/bash
# open-mpi-debian.sh: sourced. Debian's Open MPI, and the programs of Debian that stand in `programs`, unpacked into
# target/peers/openmpi-debian: nothing is installed. Sets root, lib, place and the variables by which programs find all that there.
# What cannot be had is one line in `missing`, and the status is 1.
open_mpi_debian() {
    local packages more all package
    place=$PWD/target/peers/openmpi-debian root=$place/root
    packages=(openmpi-bin openmpi-common libopenmpi3 libopenmpi-dev libpmix2 libmunge2 libevent-core-2.1-7 libevent-pthreads-2.1-7
        libhwloc15 libnuma1 libucx0 libfabric1 libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 libpsm2-2 libltdl7)
    if [ ! -d "$root" ] || { [ ${#programs[@]} -gt 0 ] && [ "$(cat "$place/with" 2>/dev/null)" != "${programs[*]}" ]; }; then
        rm -rf "$place.new"
        mkdir -p "$place.new/root"
        # With what this machine lacks of what the programs need.
        mapfile -t more < <([ ${#programs[@]} -eq 0 ] || apt-get install --simulate --no-install-recommends "${programs[@]}" \
            2>/dev/null | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
        mapfile -t all < <(printf '%s\n' "${packages[@]}" "${programs[@]}" "${more[@]}" | grep . | sort -u)
        if ! (cd "$place.new" && timeout 300 apt-get -qq download "${all[@]}" >apt.log 2>&1 </dev/null); then
            missing="Debian's Open MPI cannot be had ($(grep -E '^E:' "$place.new/apt.log" | tail -1))"
            return 1
        fi
        for package in "$place.new"/*.deb; do
            dpkg-deb -x "$package" "$place.new/root" || { missing="$package cannot be unpacked"; return 1; }
        done
        rm -f "$place.new"/*.deb
        # As on a Debian of today, where /lib is a link.
        if [ -d "$place.new/root/lib" ]; then
            cp -a "$place.new/root/lib/." "$place.new/root/usr/lib/"
            rm -rf "$place.new/root/lib"
        fi
        echo "${programs[*]}" >"$place.new/with"
        rm -rf "$place"
        mv "$place.new" "$place"
    fi
    lib=$root/usr/lib/$(gcc -print-multiarch)
    export LD_LIBRARY_PATH=$lib:$lib/blas:$lib/lapack
    export OPAL_PREFIX=$root/usr OPAL_LIBDIR=$lib/openmpi/lib OPAL_PKGLIBDIR=$lib/openmpi/lib/openmpi3
    export OPAL_PKGDATADIR=$root/usr/share/openmpi PMIX_INSTALL_PREFIX=$lib/pmix2
    # Components for networks that are not here, whose libraries were not unpacked, are passed over without a word.
    export OMPI_MCA_mca_base_component_show_load_errors=0
}
