#!/bin/bash
# maybempi 0.1.2 gives a program mpi4py below a launcher and "a serial stand-in with the same interface" where there is none,
# so that one program is for both. On one process of MPI and by the stand-in, calls that say which part of a buffer they mean
# give other data. Of [buffer, 2, MPI.DOUBLE] a reduction of MPI takes two numbers and that of the stand-in all four: it
# writes over what the program keeps behind them. With [buffer, (counts, displacements)] MPI gathers to the displacement, the
# stand-in to the beginning. A reduction of doubles into floats is a ValueError of mpi4py, and the stand-in does it. No call
# of it fails. Sendrecv is right. Seen with mpi4py 4.1.2 and MPICH 5.0.2 of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check maybempi==0.1.2 mpi4py==4.1.2 mpich==5.0.2 numpy==2.4.6
cat >program.py <<'END'
import sys
import numpy as np

if sys.argv[1] == "maybempi":
    from maybempi import MPI
else:
    from mpi4py import MPI
comm, numbers = MPI.COMM_WORLD, np.array([1.0, 2.0, 3.0, 4.0])


def answer(call, size, kind="f8"):
    received = np.full(size, -1, kind)
    try:
        call(received)
        return received.tolist()
    except ValueError:
        return "ValueError"


print(f"{sys.argv[1]}:")
print("  Allreduce of 2:", answer(lambda to: comm.Allreduce([numbers, 2, MPI.DOUBLE], [to, 2, MPI.DOUBLE]), 4))
print("  Sendrecv of 2:", answer(lambda to: comm.Sendrecv([numbers, 2, MPI.DOUBLE], 0, 0, [to, 2, MPI.DOUBLE], 0, 0), 4))
print("  Gatherv to 1:", answer(lambda to: comm.Gatherv(numbers, [to, ([4], [1])]), 5))
print("  Allgatherv to 1:", answer(lambda to: comm.Allgatherv(numbers, [to, ([4], [1])]), 5))
print("  Allreduce into floats:", answer(lambda to: comm.Allreduce(numbers, to), 4, "f4"))
END
for name in mpi4py maybempi; do
    LD_LIBRARY_PATH=$work/venv/lib timeout 60 venv/bin/python program.py "$name" 2>/dev/null
done | tee said
cat >expected <<'END'
mpi4py:
  Allreduce of 2: [1.0, 2.0, -1.0, -1.0]
  Sendrecv of 2: [1.0, 2.0, -1.0, -1.0]
  Gatherv to 1: [-1.0, 1.0, 2.0, 3.0, 4.0]
  Allgatherv to 1: [-1.0, 1.0, 2.0, 3.0, 4.0]
  Allreduce into floats: ValueError
maybempi:
  Allreduce of 2: [1.0, 2.0, 3.0, 4.0]
  Sendrecv of 2: [1.0, 2.0, -1.0, -1.0]
  Gatherv to 1: [1.0, 2.0, 3.0, 4.0, -1.0]
  Allgatherv to 1: [1.0, 2.0, 3.0, 4.0, -1.0]
  Allreduce into floats: [1.0, 2.0, 3.0, 4.0]
END
cmp -s said expected || { echo "this has changed"; exit 1; }
