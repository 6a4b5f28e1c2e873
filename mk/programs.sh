#!/bin/bash
# programs.sh: programs from Debian's source packages, built with our mpicc, that verify what they compute or move.
#
# hpcc: the HPC Challenge (HPL, PTRANS, random access, FFT, bandwidth and latency) on a small problem, on 2 and 4 ranks.
# fftw: its own random checks of the MPI transforms on 1 to 4 ranks, and on 4 ranks of two nodes.
# pnetcdf: its own checks in C, C++ and Fortran: of every function on one rank, and of collective access on 4 ranks.
# hdf5: its own checks of parallel files on 4 ranks.
# hypre: its own checks of the solvers for structured and semi-structured grids, on 1 to 16 ranks.
# lammps: a Lennard-Jones melt on 1, 2 and 4 ranks, and on 4 ranks of two nodes, beside the same without MPI.
# petsc: its own `make check`, in C and Fortran, and its checks of star forests, most of them over windows: fence,
#   post-start and lock on created, dynamic, allocated and shared memory, 1 to 8 ranks.
# netpipe: ping-pong in its integrity mode to 1 MiB, blocking, synchronous, nonblocking, both ways at once.
set -euo pipefail
cd "$(dirname "$0")/.."
mk/setup.sh gcc gfortran dpkg-deb perl autoreconf
. mk/programs-sources.sh
mpicc=$root/target/dist/bin/mpicc
mpiexec=$root/target/dist/bin/mpiexec
failures=0

[ -x "$mpicc" ] || { echo "programs: $mpicc is not there: run make first" >&2; exit 1; }

# passes NAME COMMAND...: runs it with a time limit; it has passed when it ends well and `verified NAME OUTPUT` says so.
passes() {
    local name=$1 output=$place/results/${1// /-} status=0
    shift
    timeout --kill-after=5 "$limit_s" "$@" >"$output" 2>&1 </dev/null || status=$?
    if [ $status = 0 ] && verified "$name" "$output"; then
        echo "$name: passed$remark"
    else
        echo "$name: FAILED (status $status); its output: ${output#"$root"/}"
        tail -n 12 "$output" | sed 's/^/    /'
        failures=$((failures + 1))
    fi
}

# What a program says of its own results.
verified() {
    remark=
    case $1 in
    netpipe*)
        # It stops at the first wrong byte.
        local sizes
        sizes=$(grep -c 'Integrity check passed' "$2") || return 1
        remark=" ($sizes sizes)"
        [ "$sizes" -ge 30 ]
        ;;
    fftw*)
        # Its script ends at the first wrong transform; each line with errors is one.
        local transforms
        transforms=$(grep -cE '^[oi][a-z]+\[?[0-9].*e-[0-9]+ .*e-' "$2") || return 1
        remark=" ($transforms transforms)"
        [ "$transforms" -ge 20 ]
        ;;
    pnetcdf*)
        # Its makefiles end at the first check that fails.
        local checks
        checks=$(grep -cE '^PASS:| pass$' "$2") || return 1
        remark=" ($checks checks)"
        [ "$checks" -ge 50 ]
        ;;
    hdf5*)
        # Each program ends with a status; what it prints differs.
        ! grep -qE '\*FAILED\*|PROC [0-9]+: \*\*\*' "$2"
        ;;
    'petsc check')
        local checks
        checks=$(grep -c 'run successfully with' "$2") || return 1
        remark=" ($checks checks)"
        [ "$checks" = 3 ] && ! grep -q 'Possible error' "$2"
        ;;
    petsc*)
        # `ok NAME`, `not ok NAME`; a check for another machine is `ok NAME # SKIP why`.
        local checks
        checks=$(grep -E '^ *ok ' "$2" | grep -vc '# SKIP') || return 1
        remark=" ($checks checks)"
        [ "$checks" -ge 600 ] && ! grep -qE '^ *not ok ' "$2"
        ;;
    hypre*)
        # A check that fails writes to the file of its errors.
        local checks
        checks=$(find hypre/src/test/TEST_struct hypre/src/test/TEST_sstruct -name '*.err' | wc -l)
        remark=" ($checks checks)"
        [ "$checks" -ge 40 ] && [ -z "$(find hypre/src/test -name '*.err' -size +0)" ]
        ;;
    lammps*)
        # Step, temperature, energies and pressure beside those of the serial run.
        local steps
        steps=$(awk '
            !(NF == 6 && /^ *[0-9][-+0-9. e]*$/) {next}
            FNR == NR {want[++steps] = $0; next}
            {split(want[++seen], field); for (i = 1; i <= 6; i++) {bad += ($i - field[i]) ^ 2 > 1e-12 * (1 + field[i] ^ 2)}}
            END {print seen; exit bad > 0 || seen != steps}' results/lammps-serial "$2") || return 1
        remark=" ($steps lines of thermodynamics)"
        [ "$steps" -ge 6 ]
        ;;
    hpcc*)
        # Linear system and transpose say PASSED or FAILED; random access and the transform give their errors.
        grep -q '^Success=1' hpccoutf.txt && ! grep -q 'FAILED' hpccoutf.txt || return 1
        awk -F= '/^MPIRandomAccess_(LCG_)?ErrorsFraction/ {seen++; bad += $2 > 0.01}
            /^(PTRANS_residual|MPIFFT_maxErr)/ {seen++; bad += $2 > 1e-9} END {exit seen != 4 || bad > 0}' hpccoutf.txt
        ;;
    esac
}

# make in petsc's folder, with our wrappers first.
petsc=(env PATH="${mpicc%/*}:$PATH" make -C "$place/petsc" PETSC_DIR="$place/petsc" PETSC_ARCH=tutti)

packages=(hpcc netpipe fftw3 pnetcdf hdf5 hypre petsc lammps)
downloaded "${packages[@]}"
for package in "${packages[@]}"; do unpacked "$package" "$package"; done

make -C netpipe mpi MPICC="$mpicc -w" >netpipe.log 2>&1 || { tail netpipe.log; exit 1; }
hpl_makefile hpcc -O1 -w
echo "building hpcc (about a minute) ..."
make -C hpcc arch=tutti -j2 MPICC="$mpicc" BLAS="$place/blas" >hpcc.log 2>&1 || { tail hpcc.log; exit 1; }

if [ ! -x fftw3/mpi/mpi-bench ]; then
    echo "building fftw (some three minutes) ..."
    (cd fftw3 && ./configure --enable-mpi --disable-fortran --disable-doc MPICC="$mpicc" CFLAGS="-O1 -w" && make -j2) \
        >fftw.log 2>&1 || { tail fftw.log; exit 1; }
fi

if [ ! -e pnetcdf/built ]; then
    echo "building pnetcdf (some three minutes) ..."
    fortran="-O1 -w -fallow-argument-mismatch"
    (cd pnetcdf && autoreconf -i && ./configure --disable-static --enable-shared MPICC="$mpicc" MPICXX="${mpicc%cc}cxx" MPIF77="${mpicc%cc}fort" \
        MPIF90="${mpicc%cc}fort" CFLAGS="-O1 -w" CXXFLAGS="-O1 -w" FFLAGS="$fortran" FCFLAGS="$fortran" \
        TESTMPIRUN="$mpiexec -n NP" TESTSEQRUN="$mpiexec -n 1" && make -j2 && touch built) >pnetcdf.log 2>&1 || { tail pnetcdf.log; exit 1; }
fi

if [ ! -e hdf5/built ]; then
    echo "building hdf5 (some four minutes) ..."
    (cd hdf5 && ./configure --enable-parallel --disable-static --disable-tools --disable-hl CC="$mpicc" CFLAGS="-O1 -w" &&
        make -j2 -C src && make -j2 -C test libh5test.la &&
        make -j2 -C testpar t_mpi testphdf5 t_cache t_shapesame t_pread t_filters_parallel && touch built) \
        >hdf5.log 2>&1 || { tail hdf5.log; exit 1; }
fi

if [ ! -e hypre/built ]; then
    echo "building hypre (some three minutes) ..."
    (cd hypre/src && ./configure --with-MPI CC="$mpicc" CXX="${mpicc%cc}cxx" FC="${mpicc%cc}fort" CFLAGS="-O1 -w" CXXFLAGS="-O1 -w" \
        FFLAGS="-O1 -w" && make -j2 && make -j2 -C test && touch ../built) >hypre.log 2>&1 || { tail hypre.log; exit 1; }
fi

if [ ! -e petsc/built ]; then
    echo "building petsc (some six minutes) ..."
    (cd petsc && PATH=${mpicc%/*}:$PATH ./configure PETSC_ARCH=tutti --with-cc=mpicc --with-cxx=mpicxx --with-fc=mpifort \
        --with-mpiexec="$mpiexec" --with-debugging=0 COPTFLAGS="-O1 -w" CXXOPTFLAGS="-O1 -w" FOPTFLAGS="-O1 -w" \
        --with-shared-libraries=0 --with-x=0 --with-blas-lib="$place/blas/lib/libblas.a" \
        --with-lapack-lib="$place/blas/lib/liblapack.a" && "${petsc[@]}" MAKE_NP=2 all && touch built) >petsc.log 2>&1 ||
        { tail petsc.log; exit 1; }
fi

if [ ! -e lammps/built ]; then
    echo "building lammps, what melt needs of it, with MPI and without (some six minutes) ..."
    (cd lammps/src && only_melt &&
        make -j2 serial CCFLAGS="-O1 -w -std=c++11" &&
        make -j2 mpi CC="${mpicc%cc}cxx" LINK="${mpicc%cc}cxx" CCFLAGS="-O1 -w -std=c++11" && touch ../built) \
        >lammps.log 2>&1 || { tail lammps.log; exit 1; }
fi

for how in "" "-S" "-a" "-a -2"; do
    # shellcheck disable=SC2086 # nothing, or options
    passes "netpipe${how:+ $how}" "$mpiexec" -n 2 netpipe/NPmpi -i -u 1048576 -n 10 $how -o results/netpipe.out
done
passes "fftw" make -C fftw3/mpi check-local NUMCHECK=10 MPIRUN="$mpiexec"
passes "fftw on 2 nodes" perl -w fftw3/tests/check.pl -r -c=10 -v --mpi "$mpiexec --virtual-nodes 2 -np 4 $place/fftw3/mpi/mpi-bench"
passes "pnetcdf" make -C pnetcdf check
passes "pnetcdf 4 ranks" make -C pnetcdf ptest
for check in t_mpi testphdf5 t_cache t_shapesame t_pread t_filters_parallel; do
    passes "hdf5 $check" env -C hdf5/testpar "$mpiexec" -n 4 "./$check"
done
passes "petsc check" "${petsc[@]}" check
limit_s=900 passes "petsc star forests" "${petsc[@]}" -f gmakefile.test test gmakesearch='vec_is_sf%' TIMEOUT=100
find hypre/src/test -name '*.err' -delete
limit_s=900 passes "hypre" bash -c "cd hypre/src/test && bash ./runtest.sh -mpi '$mpiexec -np' -rtol 0.001 -atol 0.001 TEST_struct/*.sh TEST_sstruct/*.sh"
lammps/src/lmp_serial -in lammps/examples/melt/in.melt -log none >results/lammps-serial
for how in "-n 1" "-n 2" "-n 4" "--virtual-nodes 2 -n 4"; do
    # shellcheck disable=SC2086 # options
    passes "lammps $how" "$mpiexec" $how lammps/src/lmp_mpi -in lammps/examples/melt/in.melt -log none
done
export LD_LIBRARY_PATH=$place/blas/lib
for grid in "1 2" "2 2"; do
    read -r p q <<<"$grid"
    hpcc_input hpcc 400 32 "$p" "$q"
    passes "hpcc $((p * q)) ranks" "$mpiexec" -n $((p * q)) hpcc/hpcc
done
[ $failures = 0 ]
