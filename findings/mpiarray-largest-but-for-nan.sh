#!/bin/bash
# mpiarray 0.2.1, NumPy's arrays distributed over MPI: max() and min() compare the answers of the ranks by > and <, which are
# false for a NaN on either side. So where one rank of four has a NaN, max() may be NaN, as in NumPy, or the largest of the
# numbers, or the largest of some of them: of 0 to 7 with a NaN in the place of 4 it is 3, though 7 is there. It depends on
# the rank that has the NaN. argmax() of the same array is that of the NaN ("NaN first, as in NumPy"). And norm() squares
# numbers in their own type: the norm of eight times 200 as bytes is 0, that of an array of True is 1. Seen with mpi4py 4.1.2
# and MPICH 5.0.2 of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mpiarray==0.2.1 mpi4py==4.1.2 mpich==5.0.2 numpy==2.4.6
cat >largest.py <<'END'
import warnings
import mpiarray, numpy as np
from mpi4py import MPI

warnings.simplefilter("ignore")


def say(*words):
    if MPI.COMM_WORLD.rank == 0:
        print(*words, flush=True)


for place in 0, 3, 4, 6:
    values = np.arange(8.0)
    values[place] = np.nan
    array = mpiarray.array(values)
    numpy = f"{values.max()}, {values.min()}, {values.argmax()}"
    say(f"NaN at {place}: max {array.max()}, min {array.min()}, argmax {array.argmax()}; NumPy: {numpy}")
for values in np.full(8, 200, "u1"), np.full(8, True), np.full(8, 200.0):
    say(f"norm of {values.dtype}: {mpiarray.array(values).norm():.0f}; NumPy: {np.linalg.norm(values):.0f}")
END
LD_LIBRARY_PATH=$work/venv/lib timeout 100 venv/bin/mpiexec -n 4 venv/bin/python largest.py | tee said
cat >expected <<'END'
NaN at 0: max nan, min nan, argmax 0; NumPy: nan, nan, 0
NaN at 3: max 7.0, min 0.0, argmax 3; NumPy: nan, nan, 3
NaN at 4: max 3.0, min 0.0, argmax 4; NumPy: nan, nan, 4
NaN at 6: max 5.0, min 0.0, argmax 6; NumPy: nan, nan, 6
norm of uint8: 0; NumPy: 566
norm of bool: 1; NumPy: 3
norm of float64: 566; NumPy: 566
END
cmp -s said expected || { echo "this has changed"; exit 1; }
