#!/bin/bash
# conformance.sh c|fortran|both|both-fortran [FOLDER...]: MPICH's own tests on target/dist, those in C or in Fortran (f77, f90, f08); both:
# those in C, compiled by MPICH's own mpicc (target/peers/mpich) and run on its library and on ours; both-fortran: those in Fortran and in
# C++ (cxx), by the wrappers of Debian's MPICH (target/peers/mpich-debian). They come from the distribution's source package of mpich, or
# from the folder MPICH_TESTS (its test/mpi). Without either it says so and ends well.
set -euo pipefail
cd "$(dirname "$0")/.."
language=$1
shift
place=$PWD/target/conformance
suite=${MPICH_TESTS:-$place/mpich/test/mpi}
[ "${language%fortran}" = "$language" ] || mk/setup.sh gfortran || exit 0
[ "$language" != both ] || mk/peer.sh mpich || { echo "skipped: there is no MPICH to compile with"; exit 0; }
if [ ! -d "$suite" ]; then
    mkdir -p "$place/lists" "$place/source"
    # Source packages from where binary packages come from; nothing of the system's own configuration is changed.
    find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' 2>/dev/null | xargs -r sed -n 's/^deb /deb-src /p' >"$place/sources.list" || true
    find /etc/apt/sources.list.d -name '*.sources' 2>/dev/null | xargs -r sed -n 's/^Types: .*/Types: deb-src/;p' >"$place/more.sources" || true
    mkdir -p "$place/parts"
    cp "$place/more.sources" "$place/parts/"
    apt=(apt-get -qq -o APT::Sandbox::User=root -o "Dir::Etc::sourcelist=$place/sources.list" -o "Dir::Etc::sourceparts=$place/parts" -o "Dir::State::lists=$place/lists")
    if ! (cd "$place/source" && timeout 300 "${apt[@]}" update && timeout 300 "${apt[@]}" source --download-only mpich) \
        >"$place/apt.log" 2>&1 </dev/null; then
        echo "skipped: the source package of mpich cannot be had ($(grep -E '^[EW]:' "$place/apt.log" | tail -1)); name its test/mpi in MPICH_TESTS"
        exit 0
    fi
    mkdir -p "$place/mpich"
    tar -xf "$(ls "$place"/source/mpich_*.orig.tar.* | grep -v '\.asc$' | head -1)" -C "$place/mpich" --strip-components 1 --wildcards '*/test/mpi/*'
fi
results=$language${CONFORMANCE_WAY:+-$CONFORMANCE_WAY}
mpich=() program=$language
[ "$language" != both ] || mpich=(target/peers/mpich)
if [ "$language" = both-fortran ]; then
    . mk/mpich-debian.sh
    mpich_debian || { echo "skipped: $missing"; exit 0; }
    mpich=("$place") program=both place=$PWD/target/conformance
    [ $# -gt 0 ] || set -- f77 f90 f08 cxx
fi
exec timeout --kill-after=5 "${CONFORMANCE_SECONDS:-7200}" python3 -B "tests/conformance/$program.py" "$suite" "${mpich[@]}" target/dist "$place/$results" "$@"
