#!/bin/bash
# Cases in allocations of the rig, as root and as a user.
set -uo pipefail
passed=0 failed=0
export PATH=$DIST/bin:$PATH
unset TUTTI_DIR TUTTI_DAEMON TUTTI_STATE XDG_RUNTIME_DIR
mpicc -o $RIG/home/ring tests/slurm/engine/ring.c || exit 1
cd $RIG/home || exit 1

as() { if [ "$who" = root ]; then "$@"; else runuser -u "$who" -- "$@"; fi; }
check() { # NAME STATUS
    if [ "$2" = 0 ]; then
        passed=$((passed + 1)); echo "$who: $1: passed"
    else
        failed=$((failed + 1)); echo "$who: $1: FAILED"; tail -n 20 "$out" 2>/dev/null | sed 's/^/    /'
    fi
}
# Submits a script from stdin with options, waits for its end; its output is in $out.
batch() {
    out=$RIG/home/$who-$1; shift
    rm -f "$out"
    { echo '#!/bin/bash'; cat; } | as sbatch --wait --output="$out" "$@" >/dev/null
}
start() { # the same without waiting; prints the job's number
    { echo '#!/bin/bash'; cat; } | as sbatch --parsable --output="$out" "$@"
}
await() { # WHAT SECONDS COMMAND...: until it succeeds
    local what=$1 end=$((SECONDS + $2)); shift 2
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "waited in vain for $what" >>"$out"; return 1; }
        sleep 0.1
    done
}
said() { [ "$(grep -c "$1" "$out")" = "$2" ]; }
is_over() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }
# Nothing of jobs is left: no process, socket, folder or cgroup.
is_clean() {
    ! pgrep -x tuttid && ! pgrep -x tutti-starter && ! pgrep -x ring && ! ls -d /run/tutti/slurm-* 2>/dev/null | grep -q . &&
        ! find /sys/fs/cgroup -maxdepth 6 -name 'tutti-job-*' 2>/dev/null | grep -q . && are_folders_clean
}
are_folders_clean() {
    local pid
    for pid in $(pgrep -x slurmd); do
        ! ls -d "/proc/$pid/root/tmp/tutti-"*/slurm-* 2>/dev/null | grep -q . || return 1
    done
}

for who in root eva; do
    batch one -N1 -n2 <<<'mpiexec ./ring' && said 'of 2 on n1' 2
    check "-N1 -n2 runs two ranks on its node" $?
    batch two -N2 -n4 <<<'mpiexec ./ring && mpiexec -n 2 ./ring' && said 'of 4 on n1' 2 && said 'of 4 on n2' 2 && said 'of 2 on' 2
    check "-N2 -n4 has two ranks on each node, and a second job on the same daemons" $?
    batch uneven -N2 -n3 <<<'mpiexec ./ring' && said 'of 3 on n1' 2 && said 'of 3 on n2' 1
    check "-N2 -n3 is uneven as Slurm has dealt it" $?
    batch hosts -N3 --ntasks-per-node=1 <<<'mpiexec -host n2,n3 -n 2 ./ring && tutti run -N 3 ./ring' && said 'of 2 on n2' 1 && said 'of 2 on n3' 1
    check "-host and -N choose among the nodes of the allocation" $?
    batch pair -N2 -n4 <<'X' && said 'of 4 on' 8 && said 'two at once' 1
mpiexec ./ring 3 & one=$!
mpiexec ./ring 3 & two=$!
for _ in $(seq 100); do
    [ "$(tutti ps 2>/dev/null | grep -c ring)" = 2 ] && { echo two at once; break; }
    sleep 0.05
done
wait $one && wait $two
X
    check "two jobs of one allocation, started at once, share its daemons" $?
    batch plain -N2 -n4 <<<'srun ./ring' ; said 'type `mpiexec' 1
    check "srun of a program gets one line that says what to type" $?

    out=$RIG/home/$who-suspended; rm -f "$out"
    job=$(start -N2 -n4 <<<'mpiexec ./ring 6; echo status $?')
    await "the job's ranks" 20 pgrep -x ring >/dev/null
    scontrol suspend "$job" && sleep 10 && scontrol resume "$job"
    await "its end" 40 is_over "$job" && said 'of 4 on' 4 && said 'status 0' 1
    check "a job that was suspended for 10 s goes on on both nodes" $?

    out=$RIG/home/$who-cancelled; rm -f "$out"
    job=$(start -N2 -n4 <<<'mpiexec ./ring 600')
    await "the job's ranks" 20 pgrep -x ring >/dev/null
    as scancel "$job"
    await "its end" 40 is_over "$job" && await "nothing left" 10 is_clean
    check "scancel leaves no process, socket, folder or cgroup" $?

    out=$RIG/home/$who-path; rm -f "$out"
    batch none -N2 -n2 <<<'TUTTI_ENGINE=none mpiexec ./ring; echo status $?' ; said 'status 1' 1 && said 'allocation of 2 nodes' 1
    check "TUTTI_ENGINE=none starts nothing, and one line says so" $?
    await "nothing left" 20 is_clean
    check "ended allocations leave nothing behind" $?
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
