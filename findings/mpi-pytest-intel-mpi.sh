#!/bin/bash
# mpi-pytest 2026.0 knows MPI libraries by words in their version text: MPICH, Open MPI, Microsoft. Under Intel MPI, whose text
# is "Intel(R) MPI Library ...", its usual mode (pytest starts mpiexec for each test) ends with "MPI distribution is not
# recognised", though Intel's launcher has the option that it would use for MPICH. The other mode works:
# `mpiexec -n 2 pytest -m "parallel[2]"`. Seen with mpi-pytest 2026.0, mpi4py 4.1.2 and Intel MPI 2021.18.1 of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mpi-pytest==2026.0 pytest==9.2.0 mpi4py==4.1.2 impi-rt==2021.18.1
export MPI4PY_MPIABI=impi LD_LIBRARY_PATH=$work/venv/lib PATH=$work/venv/bin:$PATH I_MPI_FABRICS=shm
cat >test_two.py <<'END'
import pytest

@pytest.mark.parallel(2)
def test_two():
    from mpi4py import MPI
    assert MPI.COMM_WORLD.size == 2
END
if timeout 100 pytest -q test_two.py >forking.txt 2>&1; then
    echo "the usual mode passes: this has changed"
    exit 1
fi
grep -o "MPI distribution is not recognised" forking.txt | head -1
timeout 100 mpiexec.hydra -n 2 pytest -q -m "parallel[2]" test_two.py >outer.txt 2>&1 || { cat outer.txt; exit 1; }
echo "below mpiexec: $(grep -o '[0-9]* passed' outer.txt | head -1)"
