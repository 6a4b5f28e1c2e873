#!/bin/bash
# pyfive 1.3.0, a reader of HDF5 in Python alone, and three ways in which a dataset may be stored. HDF5 may keep raw numbers
# in another file (H5Pset_external): pyfive reads zeros. An integer type may use some of its bits alone, as packed values of
# detectors do (H5Tset_precision, H5Tset_offset; the format's fixed-point message has both): pyfive gives the raw bits, so
# that -3 is 65488 here. A virtual dataset is None, without a word. And where one chunk of two was never written, the library
# gives the fill value: pyfive does so for a dataset of which no chunk was written, and a KeyError for this one. h5py 3.16.0
# has written the file and reads all.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyfive==1.3.0 h5py==3.16.0 numpy==2.4.6
cat >read.py <<'END'
import h5py, numpy as np, pyfive

numbers = np.array([-3, 5, 7, 9], "i4")
with h5py.File("numbers.h5", "w") as file:
    file.create_dataset("plain", data=numbers)
    file.create_dataset("external", data=numbers, external=[("raw", 0, h5py.h5f.UNLIMITED)])
    packed = h5py.h5t.STD_I32LE.copy()
    packed.set_precision(12)
    packed.set_offset(4)
    h5py.h5d.create(file.id, b"12 bits", packed, h5py.h5s.create_simple((4,))).write(h5py.h5s.ALL, h5py.h5s.ALL, numbers)
    layout = h5py.VirtualLayout((4,), "i4")
    layout[:] = h5py.VirtualSource(file["plain"])
    file.create_virtual_dataset("virtual", layout)
    file.create_dataset("no chunk", (4,), "i4", chunks=(2,), fillvalue=-1)
    file.create_dataset("one chunk", (4,), "i4", chunks=(2,), fillvalue=-1)[:2] = [-3, 5]


def answer(dataset):
    try:
        return np.asarray(dataset[()]).tolist()
    except KeyError:
        return "KeyError"


with h5py.File("numbers.h5") as file, pyfive.File("numbers.h5") as same:
    for name in "plain", "external", "12 bits", "virtual", "no chunk", "one chunk":
        print(f"{name}: h5py {answer(file[name])}, pyfive {answer(same[name])}")
END
timeout 100 venv/bin/python read.py | tee said
cat >expected <<'END'
plain: h5py [-3, 5, 7, 9], pyfive [-3, 5, 7, 9]
external: h5py [-3, 5, 7, 9], pyfive [0, 0, 0, 0]
12 bits: h5py [-3, 5, 7, 9], pyfive [65488, 80, 112, 144]
virtual: h5py [-3, 5, 7, 9], pyfive None
no chunk: h5py [-1, -1, -1, -1], pyfive [-1, -1, -1, -1]
one chunk: h5py [-3, 5, -1, -1], pyfive KeyError
END
cmp -s said expected || { echo "this has changed"; exit 1; }
