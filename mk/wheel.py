#!/usr/bin/env python3
"""wheel.py TREE FOLDER VERSION: the Python wheel tutti-mpi of a finished installation tree.

Everything is below the package `tutti`: its modules (bindings/python), and the tree in `tutti/_tree`. A wheel is a zip archive
and has no links: what is a link in the tree is a short script here, a linker script or a copy. The tag names the oldest glibc
that has all symbols of the programs (PEP 600). Nothing but the standard library and binutils is needed.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

# What a user's environment has no use for: the service manager's files, and a thousand manual pages; and the plugin of a
# compiler, which needs a C++ library.
LEFT_OUT = ("lib/systemd/", "share/man/man3/", "share/man/man8/", "lib/tutti/rcop.so")
# Libraries that every Linux of such a tag has (PEP 600).
LIBRARIES = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux[-a-z0-9_]*)\.so\.\d+")
# Commands of the environment: each begins a program of the tree.
COMMANDS = {
    "tutti": "tutti",
    "tuttid": "tuttid",
    **{f"{name}.tutti": name for name in ("mpiexec", "mpirun", "oshrun", "mpicc", "mpicxx", "mpifort", "oshcc", "oshcxx")},
    # Another wheel that has the name too starts its own by it: see the function.
    "mpiexec": "plain_mpiexec",
    "tutticc": "tutticc",
    "tutticxx": "tutticxx",
}
CALLED = """#!/bin/bash
# One program, which behaves by its name.
self=$(readlink -f -- "$0") || exit 1
exec -a {name} "${{self%/*}}/{program}" "$@"
"""
METADATA = """Metadata-Version: 2.1
Name: tutti-mpi
Version: {version}
Summary: Time-shared parallel computing: MPI, OpenSHMEM, gangs, and jobs from Python
License: Apache-2.0 OR MIT
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""


def fail(text):
    sys.exit(f"wheel: {text}")


def is_linked(path):
    """Whether it is a program or a library."""
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "little") in (2, 3)


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True).stdout


def glibc_of(path, own):
    """The newest version of glibc whose symbols it names; other libraries than those of the tag and our own are refused."""
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path)):
        if library not in own and not LIBRARIES.fullmatch(library):
            fail(f"{path} needs {library}, which not every Linux has")
    found = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", readelf("-V", path))
    return max(((int(major), int(minor)) for major, minor in found), default=(2, 5))


def in_place_of_link(path, place):
    """The text that stands for a link of the tree; none: a copy does."""
    name = path.name
    if place.startswith("bin/") and os.readlink(path) == "tutti":
        return CALLED.format(name=name, program="tutti")
    if place.startswith("share/tutti/slurm/bin/"):
        return CALLED.format(name=name, program=os.readlink(path))
    # Below lib/tutti no linker looks, programs do.
    if place.startswith("lib/") and name.endswith(".so") and not place.startswith("lib/tutti/"):
        return f"/* For the linker. */\nINPUT({os.readlink(path)})\n"
    if place.startswith("include/"):
        return f'#include "{os.readlink(path)}"\n'
    return None


def entries(tree, modules, work):
    """Names in the wheel, each with its contents and whether it is executable; the newest glibc that is needed."""
    found, glibc = [], (2, 5)
    own = {path.name for path in tree.rglob("*.so.*")}
    for path in sorted(modules.rglob("*")):
        if path.suffix in (".py", ".typed"):
            found.append((f"tutti/{path.relative_to(modules)}", path.read_bytes(), False))
    for path in sorted(tree.rglob("*")):
        place = str(path.relative_to(tree))
        if place.startswith(LEFT_OUT) or (path.is_dir() and not path.is_symlink()):
            continue
        text = in_place_of_link(path, place) if path.is_symlink() else None
        contents = path.read_bytes() if text is None else text.encode()
        if text is None and is_linked(path):
            stripped = work / "stripped"
            shutil.copyfile(path, stripped)
            subprocess.run(["strip", "--strip-unneeded", stripped], check=True)
            glibc = max(glibc, glibc_of(stripped, own))
            contents = stripped.read_bytes()
        found.append((f"tutti/_tree/{place}", contents, bool(path.stat().st_mode & 0o100)))
    return found, glibc


def write(archive, moment, name, contents, executable):
    """Adds a file; gives its line of RECORD."""
    info = zipfile.ZipInfo(name, moment)
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    level = int(os.environ.get("WHEEL_COMPRESS", "6"))
    archive.writestr(info, contents, compresslevel=level)
    digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(contents)}\n"


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: wheel.py TREE FOLDER VERSION")
    tree, folder, version = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    source = Path(__file__).resolve().parent.parent
    if not (tree / "bin/tutti").is_file():
        fail(f"{tree} is not built: run make first")
    with tempfile.TemporaryDirectory() as work:
        found, glibc = entries(tree, source / "bindings/python", Path(work))
    machine = os.uname().machine
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{machine}"
    facts = f"tutti_mpi-{version}.dist-info"
    readme = (source / "docs/user/python-jobs.md").read_text()
    commands = "".join(f"{name} = tutti._programs:{program.replace('-', '_')}\n" for name, program in COMMANDS.items())
    found += [
        (f"{facts}/METADATA", (METADATA.format(version=version) + readme).encode(), False),
        (f"{facts}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tutti\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False),
        (f"{facts}/entry_points.txt", f"[console_scripts]\n{commands}".encode(), False),
        (f"{facts}/licenses/LICENSE-APACHE", (source / "LICENSE-APACHE").read_bytes(), False),
        (f"{facts}/licenses/LICENSE-MIT", (source / "LICENSE-MIT").read_bytes(), False),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"tutti_mpi-{version}-{tag}.whl"
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    new = made.with_suffix(".new")
    with zipfile.ZipFile(new, "w") as archive:
        record = "".join(write(archive, moment, *entry) for entry in found)
        write(archive, moment, f"{facts}/RECORD", (record + f"{facts}/RECORD,,\n").encode(), False)
    new.rename(made)
    print(made)


main()
