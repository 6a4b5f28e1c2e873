#!/bin/bash
# mpiexec of MPICH 5.0.2 and of Intel MPI 2021.18.1 has options that say which of its environment variables a program gets:
# -genvnone, "do not pass any environment variables", -genvlist A, "environment variable list to pass", and -envnone and
# -envlist for one of several programs (MPICH's help). On the host of mpiexec none of them keeps anything back: the program
# has all variables, as with -genvall, since it inherits what mpiexec itself has. On another host, which is reached by a line
# of a shell in place of ssh here, they do as they say. So a job that was tried on one machine misses its variables on the
# next, and ranks of one job differ in them. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export KEPT=kept DROPPED=dropped I_MPI_FABRICS=shm
cat >program <<'END'
#!/bin/sh
echo "KEPT is ${KEPT-not set}, DROPPED is ${DROPPED-not set}"
END
cat >ssh-without-variables <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i PATH="$PATH" sh -c "$*"
END
chmod +x program ssh-without-variables
for package in mpich==5.0.2 impi; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        for option in -genvnone "-genvlist KEPT" "-genvnone -genv KEPT new" -envnone "-envlist KEPT"; do
            # shellcheck disable=SC2086
            printf '%s %s: %s\n' "$package" "$option" "$(timeout 60 mpiexec -n 1 $option ./program 2>/dev/null)"
        done
        [ "$package" != mpich==5.0.2 ] || for option in -genvall -genvnone "-genvlist KEPT"; do
            # shellcheck disable=SC2086
            printf '%s %s, another host: %s\n' "$package" "$option" "$(timeout 60 mpiexec -launcher ssh -localhost 127.0.0.1 \
                -launcher-exec "$work/ssh-without-variables" -hosts elsewhere -n 1 $option ./program 2>/dev/null)"
        done
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2 -genvnone: KEPT is kept, DROPPED is dropped
mpich==5.0.2 -genvlist KEPT: KEPT is kept, DROPPED is dropped
mpich==5.0.2 -genvnone -genv KEPT new: KEPT is new, DROPPED is dropped
mpich==5.0.2 -envnone: KEPT is kept, DROPPED is dropped
mpich==5.0.2 -envlist KEPT: KEPT is kept, DROPPED is dropped
mpich==5.0.2 -genvall, another host: KEPT is kept, DROPPED is dropped
mpich==5.0.2 -genvnone, another host: KEPT is not set, DROPPED is not set
mpich==5.0.2 -genvlist KEPT, another host: KEPT is kept, DROPPED is not set
impi -genvnone: KEPT is kept, DROPPED is dropped
impi -genvlist KEPT: KEPT is kept, DROPPED is dropped
impi -genvnone -genv KEPT new: KEPT is new, DROPPED is dropped
impi -envnone: KEPT is kept, DROPPED is dropped
impi -envlist KEPT: KEPT is kept, DROPPED is dropped
END
cmp -s said expected || { echo "this has changed"; exit 1; }
