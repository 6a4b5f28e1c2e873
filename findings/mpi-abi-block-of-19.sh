#!/bin/bash
# The binary interface of MPI-5.0 gives MPI_DISTRIBUTE_DFLT_DARG the value 19, which is a size of a block that a program
# may ask for. A cyclic distribution in blocks of 19 then silently becomes one in blocks of 1: of 100 elements on 2
# processes rank 0 gets 50 in place of 57. In MPICH's own interface the constant is negative, and all sizes work.
# Seen with MPICH 5.0.2 of PyPI, the same library compiled for by mpicc and by mpicc_abi.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mpich==5.0.2
cat >blocks.c <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int block = 18; block <= 20; block++) {
        int elements = 100, cyclic = MPI_DISTRIBUTE_CYCLIC, processes = 2, bytes;
        MPI_Datatype part;
        MPI_Type_create_darray(2, 0, 1, &elements, &cyclic, &block, &processes, MPI_ORDER_C, MPI_BYTE, &part);
        MPI_Type_size(part, &bytes);
        printf("%d ", bytes);
        MPI_Type_free(&part);
    }
    printf("\n");
    MPI_Finalize();
    return 0;
}
END
export PATH=$work/venv/bin:$PATH LD_LIBRARY_PATH=$work/venv/lib
for compiler in mpicc mpicc_abi; do
    $compiler blocks.c -o "$compiler.out"
    printf '%s, blocks of 18, 19, 20: rank 0 has %s\n' $compiler "$(./$compiler.out | tee $compiler.said)"
done
[ "$(cat mpicc.said)" = "54 57 60 " ] && [ "$(cat mpicc_abi.said)" = "54 50 60 " ] || { echo "this has changed"; exit 1; }
