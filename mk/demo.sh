#!/bin/bash
# demo.sh: from a fresh clone to two jobs that share this machine, and an MPI program that nobody here wrote, in numbered
# steps, each with an estimate. What needs the network and cannot be had is left out with a line; the rest runs.
#
# Steps: what is missing; the build; C programs of examples/; two jobs in turns (mk/turns.sh); mpi4py's wheel from PyPI, as it
# is, on 1, 2 and 4 ranks. While the build runs, what the last two need is fetched.
# Begun again after an interruption it goes on where it stopped. Logs are in target/demo.
# DEMO_MPICC and DEMO_MPIEXEC put another MPI in place of ours (to tell whose fault something is).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
demo=$root/target/demo
mpicc=${DEMO_MPICC:-$root/target/dist/bin/mpicc}
mpiexec=${DEMO_MPIEXEC:-$root/target/dist/bin/mpiexec}
steps=5 step=0
failures=0 left_out=0
cores=$(nproc)
mkdir -p "$demo"

# Each command is the leader of a group, so that an interruption ends all that it has started.
groups=()
finish() { for group in "${groups[@]}"; do kill -- "-$group" 2>/dev/null || true; done; }
trap finish EXIT
trap 'clear_bar; echo "demo: interrupted; make demo goes on from here"; exit 130' INT TERM HUP

# duration SECONDS: as a person says it.
duration() { if [ "$1" -lt 55 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi; }

clear_bar() { [ ! -t 1 ] || printf '\r\033[K'; }
# bar ELAPSED_S ESTIMATE_S: on a terminal only.
bar() {
    [ -t 1 ] || return 0
    local full=30 done=$(($1 * 30 / ($2 > 0 ? $2 : 1)))
    [ "$done" -lt $full ] || done=$((full - 1))
    printf '\r    [%s%s] %s' "$(printf '%*s' "$done" '' | tr ' ' '#')" "$(printf '%*s' $((full - done)) '' | tr ' ' .)" "$(duration "$1")"
}

# announce TITLE SECONDS: begins a step.
announce() {
    step=$((step + 1)) estimate_s=$2 began=$SECONDS
    printf '\n%d/%d %s, about %s\n' $step $steps "$1" "$(duration "$2")"
}

# run LOG LIMIT_S COMMAND...: with a time limit; its output goes to the file, the bar shows that it is alive.
run() {
    local log=$1 limit_s=$2 status=0
    shift 2
    setsid timeout --kill-after=5 "$limit_s" "$@" >"$log" 2>&1 </dev/null &
    groups+=($!)
    while [ -d /proc/$! ] && kill -0 $! 2>/dev/null; do
        bar $((SECONDS - began)) "$estimate_s"
        sleep 0.2
    done
    wait $! || status=$?
    clear_bar
    return $status
}

# show COMMAND...: prints the command as a user would type it, runs it, indents its output.
show() {
    local words="$*" status=0
    words=${words//$root\/target\/dist\/bin\//}
    words=${words//$root\//}
    printf '  $ %s\n' "$words"
    run "$demo/run.log" 120 "$@" || status=$?
    sed 's/^/    /' "$demo/run.log"
    case $status in
    0) ;;
    124 | 137) echo "    FAILED: not at its end after 120 s"; failures=$((failures + 1)) ;;
    *) echo "    FAILED: status $status"; failures=$((failures + 1)) ;;
    esac
}

leave_out() {
    echo "    left out: $*"
    left_out=$((left_out + 1))
}

announce "looking for what is needed" 10
is_built() { [ -n "${DEMO_MPIEXEC:-}" ] || mk/install.sh is-current 2>/dev/null; }
needed=(gcc)
is_built || needed+=(rust make pkg-config)
mk/setup.sh "${needed[@]}" -- venv

# While the build has the machine: what comes from PyPI, one after the other.
if python3 -c 'import venv, ensurepip' 2>/dev/null; then
    setsid bash -c 'mk/peer.sh mpich 2>"$1/mpich.why"; mk/mpi4py.sh wheel >"$1/mpi4py.why" 2>&1' _ "$demo" </dev/null &
    fetching=$!
    groups+=($fetching)
fi

if is_built; then
    announce "building Tutti (it is built)" 1
else
    # A chain of one core, and beside it what fills the others: measured on two.
    announce "building Tutti" $((100 + 120 / cores))
    if ! run "$demo/build.log" 7200 "${MAKE:-make}" --no-print-directory dist; then
        echo "demo: the build failed: $(grep -E '^ *error|^E:|: error' "$demo/build.log" | head -1)" >&2
        grep -qE 'failed to (download|fetch|get)|Could not resolve|network' "$demo/build.log" &&
            echo "demo: Rust's crates come from the network, which does not answer here" >&2
        echo "demo: all that it printed: target/demo/build.log" >&2
        exit 1
    fi
fi
echo "    target/dist is there after $(duration $((SECONDS - began)))"

announce "C programs, compiled with mpicc" 10
for name in hello ring pi halo; do
    "$mpicc" -std=c11 -O2 -Wall -Wextra -pedantic -o "$demo/$name" "examples/$name.c" -lm
done
show "$mpiexec" -n 4 "$demo/hello"
show "$mpiexec" -n 2 "$demo/ring"
show "$mpiexec" -n 2 "$demo/pi"
show "$mpiexec" -n 2 "$demo/halo"

if [ -z "${DEMO_MPIEXEC:-}" ]; then
    announce "two people at once on the same cores: each program runs in turns, with the machine to itself" 30
    # What MPICH lacks is fetched by now, or not to be had.
    [ -z "${fetching:-}" ] || [ -x target/peers/mpich/bin/mpiexec ] || run /dev/null 120 tail --pid=$fetching -f /dev/null || true
    run "$demo/turns.log" 600 mk/turns.sh || failures=$((failures + 1))
    sed 's/^/  /' "$demo/turns.log"
fi

announce "mpi4py's wheel from PyPI, as it is" 10
python=$root/target/mpi4py/wheel/bin/python
has_mpi4py() {
    python3 -c 'import venv, ensurepip' 2>/dev/null || { leave_out "mpi4py needs the Debian package python3-venv"; return 1; }
    local status=0
    run "$demo/mpi4py.log" 300 mk/mpi4py.sh wheel || status=$?
    case $status in
    0) return 0 ;;
    3) leave_out "$(tail -1 "$demo/mpi4py.log")" ;;
    *) echo "    FAILED: $(tail -1 "$demo/mpi4py.log")"; failures=$((failures + 1)) ;;
    esac
    return 1
}
if has_mpi4py; then
    cat >"$demo/library.py" <<'END'
import re
from mpi4py import MPI
print("MPI", ".".join(map(str, MPI.Get_version())) + ":", MPI.Get_library_version().splitlines()[0].strip("\0") + ", by")
for path in sorted({line.rstrip("\n").split(None, 5)[5] for line in open("/proc/self/maps") if re.search(r"/lib(mpi\w*|tutti)\.so", line)}):
    print("   ", path)
END
    # LD_BIND_NOW: every symbol must be found now, not when it is first called.
    show env LD_BIND_NOW=1 "$mpiexec" -n 1 "$python" "$demo/library.py"
    for ranks in 1 2 4; do
        show "$mpiexec" -n $ranks "$python" -m mpi4py.bench helloworld
        show "$mpiexec" -n $ranks "$python" -m mpi4py.bench ringtest
    done
    # Its own limits are 1 GiB and 10,000 loops.
    show "$mpiexec" -n 2 "$python" -m mpi4py.bench pingpong --max-size 4194304 --loop 1000
fi

printf '\n'
if [ $failures != 0 ]; then
    echo "$failures of these FAILED, after $(duration $SECONDS)"
    exit 1
fi
echo "all of it ran$([ $left_out = 0 ] || echo " but what was left out"), in $(duration $SECONDS)"
[ -z "${DEMO_MPIEXEC:-}" ] || exit 0
cat <<END
Who ran when, as a picture: open $demo/timeline.html in a browser.
Three things to type next:
    export PATH="$root/target/dist/bin:\$PATH"
    mpicc -O2 -o turns examples/turns.c && mpiexec -n 2 ./turns 40000
    tutti doctor        # what this machine allows, and what to do about the rest
END
