#!/bin/bash
# demo.sh: MPI programs that nobody here wrote, on this library, from one command.
#
# Builds mpi4py from its source distribution with our mpicc into a private virtual environment, looks that every symbol
# it needs is found in our library, runs its own benches on 1, 2 and 4 ranks, then C programs of examples/.
# DEMO_MPICC and DEMO_MPIEXEC put another MPI in place of ours (to tell whose fault something is).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
demo=$root/target/demo
mpicc=${DEMO_MPICC:-$root/target/dist/bin/mpicc}
mpiexec=${DEMO_MPIEXEC:-$root/target/dist/bin/mpiexec}
limit_s=120

failures=0

section() { printf '\n== %s\n' "$*"; }

# show COMMAND...: prints the command as a user would type it, runs it with a time limit, indents its output.
show() {
    local words="$*" status
    words=${words//$root\/target\/dist\/bin\//}
    words=${words//$root\//}
    printf '$ %s\n' "$words"
    set +e
    timeout --kill-after=5 "$limit_s" "$@" </dev/null 2>&1 | sed 's/^/    /'
    status=${PIPESTATUS[0]}
    set -e
    case $status in
    0) ;;
    124 | 137) echo "    FAILED: not at its end after $limit_s s"; failures=$((failures + 1)) ;;
    *) echo "    FAILED: status $status"; failures=$((failures + 1)) ;;
    esac
}

for tool in "$mpicc" "$mpiexec"; do
    [ -x "$tool" ] || { echo "demo: $tool is not there: run make first" >&2; exit 1; }
done
mkdir -p "$demo"

section "C programs, compiled with $("$mpicc" -show | cut -d' ' -f1) through ${mpicc#"$root"/}"
for name in hello ring pi halo; do
    "$mpicc" -std=c11 -O2 -Wall -Wextra -pedantic -o "$demo/$name" "examples/$name.c" -lm
done
show "$mpiexec" -n 4 "$demo/hello"
show "$mpiexec" -n 2 "$demo/ring"
show "$mpiexec" -n 2 "$demo/pi"
show "$mpiexec" -n 2 "$demo/halo"

section "mpi4py from PyPI's source distribution, built with ${mpicc#"$root"/}"
python=$root/target/mpi4py/venv/bin/python
mk/mpi4py.sh

module=$("$python" -c 'import glob, mpi4py, os; print(glob.glob(os.path.join(os.path.dirname(mpi4py.__file__), "MPI.*.so"))[0])')
# LD_BIND_NOW: every symbol must be found now, not when it is first called.
LD_BIND_NOW=1 "$python" - "$module" <<'END'
import re, subprocess, sys
from mpi4py import MPI
module = sys.argv[1]
undefined = subprocess.run(["nm", "-D", "--undefined-only", module], capture_output=True, text=True, check=True).stdout
names = sorted({w for w in undefined.split() if re.match(r"P?MPIX?_", w)})
mapped = sorted({line.split()[-1] for line in open("/proc/self/maps") if re.search(r"/lib(mpi\w*|tutti)\.so", line)})
print(f"import mpi4py.MPI: all {len(names)} MPI symbols that it needs are resolved, by")
for path in mapped:
    print("   ", path)
print("MPI", ".".join(map(str, MPI.Get_version())) + ":", MPI.Get_library_version().splitlines()[0].strip("\0"))
END

for ranks in 1 2 4; do
    show "$mpiexec" -n $ranks "$python" -m mpi4py.bench helloworld
    show "$mpiexec" -n $ranks "$python" -m mpi4py.bench ringtest
    # A ping-pong needs a partner; with more ranks the others wait. Its own limits are 1 GiB and 10,000 loops.
    [ $ranks = 1 ] || show "$mpiexec" -n $ranks "$python" -m mpi4py.bench pingpong --max-size 4194304 --loop 1000
done

if [ -z "${DEMO_MPIEXEC:-}" ]; then
    section "Two people at once on the same cores: each program runs in turns, with the machine to itself"
    mk/turns.sh || failures=$((failures + 1))
fi

section "$([ $failures = 0 ] && echo "all of it ran" || echo "$failures of these FAILED")"
[ $failures = 0 ]
