#!/bin/bash
# mpi4py 4.1.2: mpi4py.util.dtlib.from_numpy_dtype makes an MPI datatype of a dtype of NumPy. A string of five bytes (S5)
# becomes one MPI_CHAR, in a record too, so each record that is sent with the new datatype arrives with the first letter of
# its names, and three letters of text (U3) are one MPI_WCHAR. Extents are right, and nothing is said. Of an array of five
# characters in a record (S1 five times), all five are sent; a dtype that it cannot map (V5) is a ValueError. Seen with the
# wheels of PyPI and MPICH 5.0.2.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mpi4py==4.1.2 numpy==2.4.6 mpich==5.0.2
cat >send.py <<'END'
from mpi4py import MPI
from mpi4py.util import dtlib
import numpy as np

for name, letters in ("S5", "alpha"), ("U3", "abc"), (("S1", (5,)), [b"a", b"l", b"p", b"h", b"a"]):
    dtype = np.dtype([("name", *(name if isinstance(name, tuple) else (name,))), ("number", "i4")])
    sent, received = np.array([(letters, 7), (letters, 8)], dtype), np.zeros(2, dtype)
    datatype = dtlib.from_numpy_dtype(dtype).Commit()
    MPI.COMM_SELF.Sendrecv([sent, 2, datatype], 0, 0, [received, 2, datatype], 0, 0)
    names = ["".join(map(str, np.asarray(row["name"]).astype("U").ravel())) for row in received]
    print(f"{name}: {datatype.Get_size() - 4} of {dtype['name'].itemsize} bytes, arrived {names} {received['number'].tolist()}")
for name in "S5", "V5":
    try:
        print(f"{name} alone:", dtlib.from_numpy_dtype(np.dtype(name)).Get_size(), "byte of 5")
    except ValueError as error:
        print(f"{name} alone: ValueError")
END
LD_LIBRARY_PATH=$work/venv/lib timeout 100 venv/bin/python send.py | tee said
cat >expected <<'END'
S5: 1 of 5 bytes, arrived ['a', 'a'] [7, 8]
U3: 4 of 12 bytes, arrived ['a', 'a'] [7, 8]
('S1', (5,)): 5 of 5 bytes, arrived ['alpha', 'alpha'] [7, 8]
S5 alone: 1 byte of 5
V5 alone: ValueError
END
cmp -s said expected || { echo "this has changed"; exit 1; }
