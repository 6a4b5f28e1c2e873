#!/bin/bash
# kerchunk 0.2.10 and VirtualiZarr 2.5.1 (the last one for Python 3.11) list where the chunks of an HDF5 file are, so that
# zarr reads the file as it is. A dataset may be stored in the header of its object (layout "compact", as small tables are),
# and it may be put together of parts of other datasets ("virtual", as detectors do); neither has a place in the file that
# could be listed. Both take them for datasets that were never written: all numbers are zeros, without a word. And a chunk may
# have skipped one of the filters of its dataset, which the mask of the chunk says (H5Dwrite_chunk): VirtualiZarr does not
# look at it, and shuffles bytes back that were not shuffled. h5py 3.16.0 has written the files and reads all.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check kerchunk==0.2.10 virtualizarr==2.5.1 zarr==3.1.6 xarray==2025.6.1 \
    h5py==3.16.0 numpy==2.4.6 numcodecs==0.16.6 obstore==0.12.1
cat >read.py <<'END'
import os, warnings, zlib
import h5py, numpy as np, xarray
from kerchunk.hdf import SingleHdf5ToZarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr.parsers import HDFParser

warnings.simplefilter("ignore")
numbers = np.arange(1, 201, dtype="i4")


def plain(file):
    file.create_dataset("x", data=numbers)


def compact(file):
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.COMPACT)
    dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((200,)), layout)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers)


def virtual(file):
    layout = h5py.VirtualLayout((200,), "i4")
    layout[:] = h5py.VirtualSource(file.create_dataset("parts", data=numbers))
    file.create_virtual_dataset("x", layout)


def skipped_shuffle(file):
    dataset = file.create_dataset("x", (200,), "i4", chunks=(200,), compression="gzip", shuffle=True)
    dataset.id.write_direct_chunk((0,), zlib.compress(numbers.tobytes()), filter_mask=1)


def few(values):
    return f"{values[:2].tolist()}... sum {values.sum(dtype='i8')}"


def answer(open_it):
    try:
        return few(open_it()["x"].values)
    except ValueError:
        return "ValueError"


registry = ObjectStoreRegistry({"file://": LocalStore()})
for make in plain, compact, virtual, skipped_shuffle:
    name = f"{make.__name__}.h5"
    with h5py.File(name, "w") as file:
        make(file)
        file["x"].dims[0].label = "d"
    with h5py.File(name) as file:
        print(f"{name}: h5py {few(file['x'][()])}", end=", ")
    kerchunk = answer(lambda: xarray.open_dataset(SingleHdf5ToZarr(name).translate(), engine="kerchunk", mask_and_scale=False))
    store = HDFParser()(f"file://{os.path.abspath(name)}", registry)
    virtualizarr = answer(lambda: xarray.open_zarr(store, consolidated=False, zarr_format=3, mask_and_scale=False))
    print(f"kerchunk {kerchunk}, VirtualiZarr {virtualizarr}")
END
timeout 200 venv/bin/python read.py | tee said
cat >expected <<'END'
plain.h5: h5py [1, 2]... sum 20100, kerchunk [1, 2]... sum 20100, VirtualiZarr [1, 2]... sum 20100
compact.h5: h5py [1, 2]... sum 20100, kerchunk [0, 0]... sum 0, VirtualiZarr [0, 0]... sum 0
virtual.h5: h5py [1, 2]... sum 20100, kerchunk [0, 0]... sum 0, VirtualiZarr [0, 0]... sum 0
skipped_shuffle.h5: h5py [1, 2]... sum 20100, kerchunk ValueError, VirtualiZarr [-1754975487, 0]... sum -67116088325
END
cmp -s said expected || { echo "this has changed"; exit 1; }
