#!/bin/bash
# mpiexec hands its standard input to rank 0 (its option -s names others). That of MPICH 5.0.2 and 4.2.3 does so as long
# as what rank 0 has not read yet fits into a pipe, 64 KiB on Linux. With more the proxy ends the job: "process
# reading stdin too slowly; can't keep up". So `mpiexec -n 1 program <input` works or not by how long the program takes to
# begin, as MPI_Init or a Python start does: here it sleeps for a second. Nothing waits for the reader, as a shell's pipe would.
# Intel MPI 2021.18.1's mpiexec, made from it, delivers all. Seen with the wheels of PyPI and 60,000 and 200,000 bytes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
head -c 60000 /dev/zero >60000
head -c 200000 /dev/zero >200000
for package in mpich==4.2.3 mpich==5.0.2; do
    python3 -m venv "$package"
    "$package/bin/pip" install --quiet --disable-pip-version-check "$package"
    for bytes in 60000 200000; do
        LD_LIBRARY_PATH=$work/$package/lib timeout 60 \
            "$package/bin/mpiexec" -n 1 sh -c 'sleep 1; wc -c' <$bytes >output 2>&1 || true
        printf '%s: of %d bytes: %s\n' "$package" $bytes "$(grep -o '^[0-9]*$\|process reading stdin.*' output | head -1)"
    done
done | tee said
cat >expected <<'END'
mpich==4.2.3: of 60000 bytes: 60000
mpich==4.2.3: of 200000 bytes: process reading stdin too slowly; can't keep up
mpich==5.0.2: of 60000 bytes: 60000
mpich==5.0.2: of 200000 bytes: process reading stdin too slowly; can't keep up
END
cmp -s said expected || { echo "this has changed"; exit 1; }
