#!/bin/bash
# MPICH 4.0.2 as Debian 12 has it (mpich 4.0.2-3+b1, device ch4:ucx) has no dynamic processes, and says so in one place alone:
# the error of MPI_Open_port ("currently not supported with ucx netmod"). MPI_Comm_spawn never asks the launcher, under its own
# mpiexec too: its error is of the class MPI_ERR_OTHER ("Error in spawn call"), not MPI_ERR_SPAWN, and array_of_errcodes stays as
# it was. MPI_UNIVERSE_SIZE promises room all the same. MPICH 5.0.2 of PyPI, over ucx too, starts the process.
# Packages of Debian are unpacked here, nothing is installed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >spawn.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    MPI_Comm parent, child;
    int error, class = 0, length, has, *room, code = -7;
    char port[MPI_MAX_PORT_NAME], text[MPI_MAX_ERROR_STRING] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &room, &has);
    error = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, &code);
    MPI_Error_class(error, &class);
    printf("room %s, spawn %s, code %d\n", has && *room > 1 ? "for more" : "for one",
           error == MPI_SUCCESS ? "right" : class == MPI_ERR_SPAWN ? "MPI_ERR_SPAWN" : class == MPI_ERR_OTHER ? "MPI_ERR_OTHER" : "?", code);
    if (error == MPI_SUCCESS)
        MPI_Comm_disconnect(&child);
    error = MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Error_string(error, text, &length);
    printf("port %s\n", error == MPI_SUCCESS ? "right" : strstr(text, "not supported with ucx") ? "not supported with ucx" : text);
    MPI_Finalize();
    return 0;
}
C
debian=4.0.2-3+b1
apt-get download -q "mpich=$debian" "libmpich12=$debian" "libmpich-dev=$debian" libucx0 libfabric1 libhwloc15 libibverbs1 \
    librdmacm1 libltdl7 libnl-3-200 libnl-route-3-200 libnuma1 libslurm38 >/dev/null
for package in *.deb; do dpkg -x "$package" system; done
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check mpich==5.0.2
lib=$work/system/usr/lib/x86_64-linux-gnu
(
    export LD_LIBRARY_PATH=$lib:$work/system/lib/x86_64-linux-gnu
    gcc -w -I "$work/system/usr/include/x86_64-linux-gnu/mpich" spawn.c -o debian -L "$lib" -lmpich -Wl,--allow-shlib-undefined
    # Room by its launcher's word.
    timeout 60 system/usr/bin/mpiexec.hydra -usize 4 -n 1 ./debian 2>/dev/null | grep -aE '^(room|port) ' | sed 's/^/Debian: /'
) | tee said
(
    export PATH=$work/tools/bin:$PATH UCX_TLS=self,tcp
    mpicc -w spawn.c -o wheel
    timeout 60 mpiexec -usize 4 -n 1 ./wheel 2>/dev/null | grep -aE '^(room|port) ' | sed 's/^/5.0.2: /'
) | tee -a said
cat >expected <<'END'
Debian: room for more, spawn MPI_ERR_OTHER, code -7
Debian: port not supported with ucx
5.0.2: room for more, spawn right, code 0
5.0.2: port right
END
cmp -s said expected || { echo "this has changed"; exit 1; }
