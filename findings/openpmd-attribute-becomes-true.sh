#!/bin/bash
# openPMD-api 0.17.1 for Python: set_attribute has one version for each type of attribute, among them complex numbers, which
# files of HDF5, ADIOS2 and JSON can hold. It takes the first version that fits, and any object of Python has a truth value:
# so the complex number 1+2j, Decimal("0.25") and the integer 2**63, a seed for instance, are written as True, and 0j as
# False. No call fails, and readers in any language find a boolean. The same numbers as types of NumPy (complex128, float64,
# uint64) are right, and a list of complex numbers is a TypeError.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openpmd-api==0.17.1.post4 h5py==3.16.0 numpy==2.4.6
cat >write.py <<'END'
from decimal import Decimal
import h5py, numpy as np, openpmd_api as io

values = {"complex": 1 + 2j, "zero": 0j, "decimal": Decimal("0.25"), "seed": 2**63, "integer": 2**62, "float": 0.25}
values |= {"numpy complex": np.complex128(1 + 2j), "numpy seed": np.uint64(2**63), "list": [1 + 2j]}
for name in "file.h5", "file.json":
    series = io.Series(name, io.Access.create)
    for key, value in values.items():
        try:
            series.set_attribute(key, value)
        except TypeError:
            print(f"{name}: {key} is a TypeError")
    series.close()
    series = io.Series(name, io.Access.read_only)
    for key in values:
        if key in series.attributes:
            print(f"{name}: {key} {values[key]} is {series.get_attribute(key)}")
    series.close()
with h5py.File("file.h5") as file:
    print("h5py: complex is", file.attrs["complex"], "of type", file.attrs["complex"].dtype)
END
timeout 100 venv/bin/python write.py | tee said
cat >expected <<'END'
file.h5: list is a TypeError
file.h5: complex (1+2j) is True
file.h5: zero 0j is False
file.h5: decimal 0.25 is True
file.h5: seed 9223372036854775808 is True
file.h5: integer 4611686018427387904 is 4611686018427387904
file.h5: float 0.25 is 0.25
file.h5: numpy complex (1+2j) is (1+2j)
file.h5: numpy seed 9223372036854775808 is 9223372036854775808
file.json: list is a TypeError
file.json: complex (1+2j) is True
file.json: zero 0j is False
file.json: decimal 0.25 is True
file.json: seed 9223372036854775808 is True
file.json: integer 4611686018427387904 is 4611686018427387904
file.json: float 0.25 is 0.25
file.json: numpy complex (1+2j) is (1+2j)
file.json: numpy seed 9223372036854775808 is 9223372036854775808
h5py: complex is True of type bool
END
cmp -s said expected || { echo "this has changed"; exit 1; }
