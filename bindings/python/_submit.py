"""Commands of the tree that the interface runs. `tutti submit` finds the program, checks it, and hands it to the daemon with all
that its ranks are to inherit; so a job is the same whether a person or a program has submitted it."""

from __future__ import annotations

import datetime
import os
import re
from typing import List, Mapping, Optional, Sequence, SupportsInt, Union

from . import _programs
from ._wire import Error, Refused

Path = Union[str, "os.PathLike[str]"]
#: A program, or one with its arguments.
Program = Union[Path, Sequence[Path]]


def submit_words(
    program: Program,
    *,
    ranks: Optional[int],
    nodes: Optional[int],
    name: Optional[str],
    time: Union[datetime.timedelta, str, None],
    output: Optional[Path],
    errors: Optional[Path],
    env: Optional[Mapping[str, str]],
    after_ok: Sequence[SupportsInt],
    options: Sequence[str],
) -> List[str]:
    """Words of ``tutti submit``; the arguments are those of :func:`tutti.submit`."""
    words = [_programs.path("tutti"), "submit"]
    for option, value in (("-n", ranks), ("-N", nodes), ("--name", name), ("-o", output), ("-e", errors)):
        if value is not None:
            words += [option, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    if isinstance(time, datetime.timedelta):
        time = f"{max(1, round(time.total_seconds()))}s"
    if time is not None:
        words += ["--time", time]
    for job in after_ok:
        words += ["--after-ok", str(int(job))]
    for variable, text in (env or {}).items():
        words += ["--env", variable, text]
    parts = [program] if isinstance(program, (str, os.PathLike)) else list(program)
    if not parts:
        raise ValueError("the program is missing")
    return words + list(options) + [os.fspath(part) for part in parts]


def why_words(job: SupportsInt) -> List[str]:
    """Words of ``tutti why``."""
    return [_programs.path("tutti"), "why", str(int(job))]


def not_started(words: Sequence[str], error: OSError) -> Error:
    """The error of a command that cannot be started."""
    return Error(f"cannot start {words[0]}: {error.strerror}")


def printed(words: Sequence[str], status: int, stdout: bytes, stderr: bytes) -> str:
    """What a command has printed; one that has failed raises its line."""
    if status != 0:
        lines = stderr.decode(errors="replace").strip().splitlines() or [f"status {status}"]
        raise Refused(re.sub(r"^tutti( \w+)?: ", "", lines[-1]))
    return stdout.decode(errors="replace")


def number_of(text: str) -> int:
    """The number in what ``tutti submit`` prints."""
    found = re.fullmatch(r"job (\d+)\n", text)
    if found is None:
        raise Error(f"tutti submit has printed {text!r}, expected a job's number")
    return int(found.group(1))


def reasons_of(text: str) -> List[str]:
    """Lines of ``tutti why`` without the job's number."""
    return [re.sub(r"^job \d+ ", "", line) for line in text.splitlines()]
