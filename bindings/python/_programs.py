"""Programs of the installation tree in this package, and the commands of the environment that begin them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
