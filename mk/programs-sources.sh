# programs-sources.sh: programs from Debian's source packages, for programs.sh and programs-peers.sh, which
# source it.
#
# Sources come from the Debian mirror that this machine's apt uses, with a list of packages of our own, into
# target/programs; apt checks their sums. hpcc needs a BLAS, petsc a LAPACK too: their packages are unpacked
# there, nothing is installed. It changes into target/programs.
# shellcheck shell=bash
root=$PWD
place=$root/target/programs
limit_s=240
mkdir -p "$place/apt/lists/partial" "$place/apt/cache/archives/partial" "$place/results"
cd "$place"

# apt COMMAND...: with our own list of packages, which has the sources too.
sed 's/^Types: .*/Types: deb deb-src/' /etc/apt/sources.list.d/debian.sources >apt/debian.sources
apt() {
    timeout "$limit_s" apt-get -qq -o Dir::Etc::sourcelist="$place/apt/debian.sources" \
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$place/apt/lists" \
        -o Dir::Cache="$place/apt/cache" -o APT::Sandbox::User=root "$@" </dev/null
}

# downloaded PACKAGE...: their sources, a BLAS and a LAPACK; if they cannot be had, one line says so and the script
# ends.
downloaded() {
    local package missing=()
    for package in "$@"; do
        compgen -G "${package}_*.orig.tar.*" >/dev/null || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || [ ! -e blas/lib/liblapack.a ] || return 0
    why() { grep -E '^[EW]:' apt.log | tail -1; }
    apt update >>apt.log 2>&1 || { echo "skipped: Debian's sources cannot be had ($(why))"; exit 0; }
    for package in "${missing[@]}"; do
        apt source --download-only --tar-only "$package" >>apt.log 2>&1 ||
            { echo "skipped: the source of $package cannot be had ($(why))"; exit 0; }
    done
    [ ! -e blas/lib/liblapack.a ] || return 0
    apt download libblas-dev libblas3 liblapack-dev libgfortran5 >>apt.log 2>&1
    rm -rf packages blas.new
    for package in ./*.deb; do dpkg -x "$package" packages; done
    mkdir -p blas.new/include blas.new/lib
    cp packages/usr/include/*/cblas*.h blas.new/include
    cp blas.new/include/cblas-netlib.h blas.new/include/cblas.h
    cp packages/usr/lib/*/blas/libblas.{so.3,a} packages/usr/lib/*/lapack/liblapack.a \
        packages/usr/lib/*/libgfortran.so.5 blas.new/lib
    rm -rf blas
    mv blas.new blas
}

# unpacked PACKAGE FOLDER: its source, as its author made it.
unpacked() {
    [ ! -d "$2" ] || return 0
    rm -rf "$2.new"
    mkdir -p "$2.new"
    tar -x -f "$1"_*.orig.tar.* -C "$2.new" --strip-components 1
    mv "$2.new" "$2"
}

# hpl_makefile FOLDER FLAG...: what HPL in a folder of hpcc asks of its builder, for `make arch=tutti
# MPICC=... BLAS=...`.
hpl_makefile() {
    local folder=$1
    shift
    cat >"$folder/hpl/Make.tutti" <<HERE
SHELL = /bin/sh
CD = cd
CP = cp
LN_S = ln -sf
MKDIR = mkdir -p
RM = rm -f
TOUCH = touch
ARCH = tutti
TOPdir = ../../..
INCdir = \$(TOPdir)/include
BINdir = \$(TOPdir)/bin/\$(ARCH)
LIBdir = \$(TOPdir)/lib/\$(ARCH)
HPLlib = \$(LIBdir)/libhpl.a
HPL_INCLUDES = -I\$(INCdir) -I\$(INCdir)/\$(ARCH) -I\$(BLAS)/include
HPL_LIBS = \$(HPLlib) -L\$(BLAS)/lib -Wl,-rpath,\$(BLAS)/lib -l:libblas.so.3 -Wl,-rpath-link,\$(BLAS)/lib -lm
HPL_OPTS = -DHPL_CALL_CBLAS
HPL_DEFS = \$(HPL_OPTS) \$(HPL_INCLUDES)
CC = \$(MPICC)
CCNOOPT = \$(HPL_DEFS)
CCFLAGS = \$(HPL_DEFS) $*
LINKER = \$(MPICC)
LINKFLAGS = \$(CCFLAGS)
ARCHIVER = ar
ARFLAGS = r
RANLIB = echo
HERE
}

# hpcc_input FOLDER N NB P Q: the input of hpcc in this folder: a problem of size N in blocks of NB, on P
# times Q ranks.
hpcc_input() {
    sed -E "s/^[0-9]+( +Ns)/$2\1/; s/^[0-9]+( +NBs)/$3\1/; s/^[0-9]+( +Ps)/$4\1/; s/^[0-9]+( +Qs)/$5\1/" \
        "$1/_hpccinf.txt" >hpccinf.txt
    rm -f hpccoutf.txt
}

# reachable NAME...: the files of a folder of C++ that are named, those whose headers they include, and so on.
reachable() {
    local -A seen=()
    local wanted=("$@") name
    while [ ${#wanted[@]} -gt 0 ]; do
        name=${wanted[0]}
        wanted=("${wanted[@]:1}")
        [ -z "${seen[$name]:-}" ] || continue
        seen[$name]=1
        mapfile -t -O ${#wanted[@]} wanted < <(cat "$name".h "$name".cpp 2>/dev/null |
            sed -nE 's/^ *#include "([a-z0-9_]+)\.h".*/\1/p')
    done
    printf '%s\n' "${!seen[@]}"
}

# only_melt: in lammps/src: its styles are the files that are there, and only those that melt needs shall be
# built.
only_melt() {
    local kept file
    # shellcheck disable=SC2046 # names without spaces
    kept=$(reachable main verlet min_cg min_linesearch pair_lj_cut fix_nve atom_map compute_temp compute_pe \
        $(ls {atom_vec,ntopo}_*.h | sed 's/\.h//') compute_pressure region_block create_box create_atoms \
        velocity run nbin_standard npair_half_bin_atomonly_newton nstencil_half_bin_3d fmtlib_format \
        fmtlib_os hashlittle)
    for file in *.cpp *.h; do grep -qxF "${file%.*}" <<<"$kept" || rm "$file"; done
}
