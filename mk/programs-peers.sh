#!/bin/bash
# programs-peers.sh: the programs of programs.sh beside the peers: each is built with our mpicc, MPICH 5's
# and Open MPI 5's, and they run in turn.
#
# PROGRAMS (hpcc fftw lammps hypre pnetcdf hdf5 netpipe), RANKS (2 4) and ROUNDS (5) say what runs; with
# REPORT=1 nothing does, and the table is made of the figures of the last run,
# target/programs/peers/figures. A figure is the program's own time (testphdf5: from its launch to its end);
# the table has the median of each MPI, and the median over the rounds of ours divided by a peer's of the
# same round. Peers run in their best setting (bench/README.md): on ranks that have cores of their own they
# are bound to them.
set -euo pipefail
cd "$(dirname "$0")/.."
mk/setup.sh gcc dpkg-deb perl autoreconf venv
. mk/programs-sources.sh
programs=${PROGRAMS:-hpcc fftw lammps hypre pnetcdf hdf5 netpipe}
rank_counts=${RANKS:-2 4}
rounds=${ROUNDS:-5}
# Each loop begins a line of the cache: else the same work takes longer in one build than in the other,
# whatever the library.
flags="-O2 -w -falign-functions=64 -falign-loops=64"
peers=$place/peers
figures=$peers/figures
mkdir -p "$peers"

# bin MPI: where its mpicc and mpiexec are.
bin() {
    case $1 in
    tutti) echo "$root/target/dist/bin" ;;
    *) echo "$root/target/peers/$1/bin" ;;
    esac
}

# launched MPI RANKS PROGRAM...: runs it, with a time limit.
launched() {
    local mpi=$1 ranks=$2 options=() cores
    shift 2
    cores=$(nproc)
    case $mpi in
    mpich) [ "$ranks" -gt "$cores" ] || options=(-bind-to core) ;;
    openmpi)
        options=(--allow-run-as-root --oversubscribe --bind-to core)
        [ "$ranks" -le "$cores" ] || options[3]=core:overload-allowed
        ;;
    esac
    timeout --kill-after=5 "$limit_s" "$(bin "$mpi")/mpiexec" "${options[@]}" -n "$ranks" "$@" </dev/null
}

# built PROGRAM MPI COMMAND...: runs the command, which builds it in target/programs/peers/MPI/PROGRAM, once.
built() {
    local program=$1 mpi=$2
    shift 2
    [ ! -e "$peers/$mpi/$program/built" ] || return 0
    echo "building $program with $mpi ..."
    mkdir -p "$peers/$mpi"
    if ! timeout 1500 bash -euo pipefail -c "$(declare -f unpacked hpl_makefile reachable only_melt); $*" \
        >"$peers/$mpi/$program.log" 2>&1 </dev/null; then
        tail "$peers/$mpi/$program.log"
        exit 1
    fi
    touch "$peers/$mpi/$program/built"
}

build_hpcc() {
    built hpcc "$1" "unpacked hpcc '$peers/$1/hpcc'; hpl_makefile '$peers/$1/hpcc' $flags
        make -C '$peers/$1/hpcc' arch=tutti -j2 MPICC='$(bin "$1")/mpicc' BLAS='$place/blas'"
}

# Only its folder for MPI differs: the rest is built once, with our mpicc, and that folder for one after the
# other.
build_fftw() {
    local shared=$peers/shared/fftw
    built fftw shared "unpacked fftw3 '$shared'; cd '$shared'
        ./configure --enable-mpi --disable-fortran --disable-doc MPICC='$(bin tutti)/mpicc' CFLAGS='$flags'
        make -j2"
    built fftw "$1" "make -C '$shared/mpi' clean; make -C '$shared/mpi' -j2 CC='$(bin "$1")/mpicc' mpi-bench
        mkdir -p '$peers/$1/fftw'; cp '$shared/mpi/mpi-bench' '$peers/$1/fftw'"
}

build_lammps() {
    built lammps "$1" "unpacked lammps '$peers/$1/lammps'; cd '$peers/$1/lammps/src'; only_melt
        make -j2 mpi CC='$(bin "$1")/mpicxx' LINK='$(bin "$1")/mpicxx' CCFLAGS='$flags -std=c++11'"
}

build_hypre() {
    built hypre "$1" "unpacked hypre '$peers/$1/hypre'; cd '$peers/$1/hypre/src'
        ./configure --with-MPI --disable-fortran CC='$(bin "$1")/mpicc' CXX='$(bin "$1")/mpicxx' \
            CFLAGS='$flags' CXXFLAGS='$flags'
        make -j2; make -j2 -C test ij struct"
}

build_pnetcdf() {
    built pnetcdf "$1" "unpacked pnetcdf '$peers/$1/pnetcdf'; cd '$peers/$1/pnetcdf'; autoreconf -i
        ./configure --disable-shared --disable-fortran --disable-cxx MPICC='$(bin "$1")/mpicc' \
            CFLAGS='$flags'
        make -j2 -C src; make -j2 -C benchmarks/C aggregation write_block_read_column"
}

build_hdf5() {
    built hdf5 "$1" "unpacked hdf5 '$peers/$1/hdf5'; cd '$peers/$1/hdf5'
        ./configure --enable-parallel --disable-shared --disable-hl CC='$(bin "$1")/mpicc' CFLAGS='$flags'
        make -j2 -C src; make -j2 -C test libh5test.la; make -j2 -C testpar testphdf5
        make -j2 -C tools/lib; make -j2 -C tools/src/h5perf h5perf"
}

build_netpipe() {
    built netpipe "$1" "unpacked netpipe '$peers/$1/netpipe'
        make -C '$peers/$1/netpipe' mpi MPICC='$(bin "$1")/mpicc $flags'"
}

# run_PROGRAM MPI RANKS: in a folder of its own; prints lines of a name and seconds (or what takes the place
# of seconds: less is better).
run_hpcc() {
    hpcc_input "$peers/$1/hpcc" 2500 64 $(($2 / 2)) 2
    LD_LIBRARY_PATH=$place/blas/lib launched "$1" "$2" "$peers/$1/hpcc/hpcc" >hpcc.out
    ! grep -q FAILED hpccoutf.txt
    awk -F= '
        /^HPL_time=/ {print "HPL, s\t" $2}
        /^PTRANS_time=/ {print "PTRANS, s\t" $2}
        /^MPIFFT_Gflops=/ {print "FFT, ns/flop\t" 1 / $2}
        /^MPIRandomAccess_GUPs=/ {print "random access, ns/update\t" 1 / $2}
        /^AvgPingPongLatency_usec=/ {print "ping-pong 8 B, us\t" $2}
        /^RandomlyOrderedRingLatency_usec=/ {print "random ring 8 B, us\t" $2}
        /^RandomlyOrderedRingBandwidth_GBytes=/ {print "random ring, s/GB\t" 1 / $2}' hpccoutf.txt
}

run_fftw() {
    local problem
    for problem in icf128x128x64 ocf512x512 orf64x64x64; do
        launched "$1" "$2" "$peers/$1/fftw/mpi-bench" -oestimate -r 5 --report-time -s "$problem" >fftw.out
        # The shortest, the mean, the longest, the median.
        awk -F '[() ]' -v problem="$problem" '/^\(/ {print problem ", s\t" $5}' fftw.out
    done
}

run_lammps() {
    local program=$peers/$1/lammps/src/lmp_mpi melt=$peers/$1/lammps/examples/melt/in.melt
    sed -E 's/(region.*block 0) 10 0 10 0 10/\1 20 0 20 0 20/; s/^run.*/run 100/' "$melt" >in.melt
    launched "$1" "$2" "$program" -in in.melt -log none >lammps.out
    awk '/^Loop time of/ {print "melt, 32,000 atoms, s\t" $4}' lammps.out
    sed -E 's/^run.*/run 1000/' "$melt" >in.melt
    launched "$1" "$2" "$program" -in in.melt -log none >lammps.out
    awk '/^Loop time of/ {print "melt, 4,000 atoms, s\t" $4}' lammps.out
}

run_hypre() {
    local test=$peers/$1/hypre/src/test
    launched "$1" "$2" "$test/ij" -P "$2" 1 1 -n 50 50 50 -solver 1 >ij.out
    launched "$1" "$2" "$test/ij" -P "$2" 1 1 -n 25 25 25 -solver 1 >ij-small.out
    launched "$1" "$2" "$test/struct" -P "$2" 1 1 -n 40 40 40 -solver 10 >struct.out
    awk '
        /wall clock time/ {sum[FILENAME] += $(NF - 1)}
        END {
            print "ij, AMG-PCG 125,000 rows, s\t" sum["ij.out"]
            print "ij, AMG-PCG 15,625 rows, s\t" sum["ij-small.out"]
            print "struct, SMG-PCG, s\t" sum["struct.out"]
        }' ij.out ij-small.out struct.out
}

run_pnetcdf() {
    local program folder=$peers/$1/pnetcdf/benchmarks/C
    for program in write_block_read_column aggregation; do
        launched "$1" "$2" "$folder/$program" -l 1500 "$PWD/$program.nc" >"$program.out"
        awk -v program="$program" '
            /^(Write|Read) .*variables/ {what = tolower($1) (/nonblocking/ ? ", nonblocking" : "")}
            /^Max open-to-close/ {print program " " what ", s\t" $(NF - 1)}' "$program.out"
    done
}

run_hdf5() {
    local begin
    begin=$EPOCHREALTIME
    HDF5_PARAPREFIX=$PWD launched "$1" "$2" "$peers/$1/hdf5/testpar/testphdf5" >hdf5.out
    awk -v begin="$begin" -v end="$EPOCHREALTIME" 'BEGIN {print "testphdf5, s\t" end - begin}'
}

run_netpipe() {
    [ "$2" = 2 ] || return 0
    launched "$1" 2 "$peers/$1/netpipe/NPmpi" -u 1048576 -p 0 -n 1000 -o netpipe.figures >netpipe.out
    awk '$1 == 8 || $1 == 4096 || $1 == 65536 || $1 == 1048576 {printf "%d B, us\t%g\n", $1, $3 * 1e6}' \
        netpipe.figures
}

report() {
    awk -F '\t' '
        # The one in the middle of values[1..count].
        function median(values, count,    i, j, value) {
            for (i = 2; i <= count; i++) {
                value = values[i]
                for (j = i - 1; j > 0 && values[j] > value; j--) values[j + 1] = values[j]
                values[j + 1] = value
            }
            return count % 2 ? values[(count + 1) / 2] : (values[count / 2] + values[count / 2 + 1]) / 2
        }
        function of(row, mpi,    round, count, list) {
            for (round = 1; round <= rounds; round++)
                if ((row, mpi, round) in figure) list[++count] = figure[row, mpi, round]
            return count ? sprintf("%.4g", median(list, count)) : "-"
        }
        function pairs(row, mpi,    round, count, list, middle) {
            for (round = 1; round <= rounds; round++)
                # A run that failed has no figure.
                if ((row, "tutti", round) in figure && figure[row, mpi, round] > 0)
                    list[++count] = figure[row, "tutti", round] / figure[row, mpi, round]
            if (!count) return "-"
            middle = median(list, count)
            return sprintf("%.2f (%.2f to %.2f)", middle, list[1], list[count])
        }
        {
            row = $1 ": " $4 " | " $2
            if (!(row in seen)) {seen[row] = 1; rows[++last] = row}
            figure[row, $3, $6] = $5
            if ($6 > rounds) rounds = $6
        }
        END {
            print "| program | ranks | MPICH | Open MPI | ours | ours/MPICH | ours/Open MPI |"
            print "|---|---|---|---|---|---|---|"
            for (i = 1; i <= last; i++)
                print "| " rows[i] " | " of(rows[i], "mpich") " | " of(rows[i], "openmpi") " | " \
                    of(rows[i], "tutti") " | " pairs(rows[i], "mpich") " | " pairs(rows[i], "openmpi") " |"
            print ""
            print "Medians of " rounds " rounds; in brackets the smallest and the largest ratio of a round."
        }' "$figures"
}

[ -z "${REPORT:-}" ] || { report; exit 0; }
[ -x "$(bin tutti)/mpicc" ] ||
    { echo "programs: $(bin tutti)/mpicc is not there: run make first" >&2; exit 1; }
mpis=(tutti)
for peer in mpich openmpi; do
    if why=$(mk/peer.sh "$peer" 2>&1); then
        mpis+=("$peer")
    else
        echo "left out: $why"
    fi
done
declare -A package=([fftw]=fftw3)
for program in $programs; do downloaded "${package[$program]:-$program}"; done
for program in $programs; do
    for mpi in "${mpis[@]}"; do "build_$program" "$mpi"; done
done
[ "$rounds" -gt 0 ] || exit 0
rm -f "$figures"
for program in $programs; do
    for ranks in $rank_counts; do
        for ((round = 1; round <= rounds; round++)); do
            for mpi in "${mpis[@]}"; do
                folder=$peers/$mpi/run-$program
                rm -rf "$folder"
                mkdir -p "$folder"
                # In the background: `set -e` holds there, which it does not in a condition.
                (cd "$folder" && "run_$program" "$mpi" "$ranks") >"$folder.figures" &
                if ! wait $!; then
                    echo "$program on $ranks ranks failed with $mpi; its output: ${folder#"$root"/}" >&2
                    continue
                fi
                sed "s/^/$program\t$ranks\t$mpi\t/; s/\$/\t$round/" "$folder.figures" >>"$figures"
            done
            mpis=("${mpis[@]:1}" "${mpis[0]}")
        done
    done
done
report
