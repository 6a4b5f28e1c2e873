"""Programs of the installation tree in this package, and the commands of the environment that begin them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Optional, Tuple

_TREE = Path(__file__).resolve().parent / "_tree"


def path(name: str) -> str:
    """The file of a program of the tree."""
    return str(_TREE / "bin" / name)


def _close_starter() -> None:
    """Installers do not keep modes: the starter of root's jobs is for root alone to read, so that no user can trace it."""
    starter = _TREE / "libexec/tutti/tutti-starter"
    try:
        found = starter.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o044:
            starter.chmod(0o711)
    except OSError:
        pass


def _begin(name: str, file: str) -> None:
    _close_starter()
    try:
        os.execv(path(file), [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot start {path(file)}: {error.strerror}")


def tutti() -> None:
    """``tutti``."""
    _begin("tutti", "tutti")


def tuttid() -> None:
    """``tuttid``."""
    _begin("tuttid", "tuttid")


def _other_launcher() -> Optional[Tuple[str, Path]]:
    """Another wheel of this environment that has the command ``mpiexec`` too, and its launcher under another name.

    Installers overwrite a file of another wheel without a word: so this command may stand in place of theirs.
    """
    site = Path(__file__).resolve().parent.parent
    for record in sorted(site.glob("*.dist-info/RECORD")):
        wheel = record.parent.name.split("-")[0]
        if wheel == "tutti_mpi":
            continue
        try:
            # A file of that name in a wheel's own folder is no command.
            commands = dict(re.findall(r"^(\.\./[^,\n]*/bin/([^/,\n]+)),", record.read_text(errors="replace"), re.MULTILINE))
        except OSError:
            continue
        files = {name: Path(os.path.normpath(site / file)) for file, name in commands.items()}
        if "mpiexec" not in files:
            continue
        for name in ("mpirun", "mpiexec.hydra", "prterun", "orterun"):
            if name in files and os.access(files[name], os.X_OK):
                return wheel, files[name]
        sys.exit(f"mpiexec: the wheel {wheel} has this name too, and no other launcher: TUTTI_MPIEXEC=tutti starts Tutti's")
    return None


def plain_mpiexec() -> None:
    """``mpiexec``: Tutti's, but where another wheel has the name; ``TUTTI_MPIEXEC=tutti`` decides."""
    other = None if os.environ.get("TUTTI_MPIEXEC") == "tutti" else _other_launcher()
    if other is None:
        return mpiexec()
    wheel, file = other
    try:
        os.execv(file, [str(file), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"mpiexec: cannot start {file} of the wheel {wheel}: {error.strerror}")


def mpiexec() -> None:
    """``mpiexec.tutti``."""
    _begin("mpiexec", "tutti")


def mpirun() -> None:
    """``mpirun.tutti``."""
    _begin("mpirun", "tutti")


def oshrun() -> None:
    """``oshrun.tutti``."""
    _begin("oshrun", "tutti")


def mpicc() -> None:
    """``mpicc.tutti``."""
    _begin("mpicc", "mpicc")


def mpicxx() -> None:
    """``mpicxx.tutti``."""
    _begin("mpicxx", "mpicxx")


def mpifort() -> None:
    """``mpifort.tutti``."""
    _begin("mpifort", "mpifort")


def oshcc() -> None:
    """``oshcc.tutti``."""
    _begin("oshcc", "oshcc")


def oshcxx() -> None:
    """``oshcxx.tutti``."""
    _begin("oshcxx", "oshcxx")


def tutticc() -> None:
    """``tutticc``."""
    _begin("tutticc", "tutticc")


def tutticxx() -> None:
    """``tutticxx``."""
    _begin("tutticxx", "tutticxx")
