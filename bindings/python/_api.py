"""The functions of the module: each asks the daemon, or runs a command, and blocks until there is an answer."""

from __future__ import annotations

import datetime
import socket
import subprocess
import time as clock
from typing import Any, List, Mapping, Optional, Sequence, SupportsInt, Union

from . import _submit, _wire
from ._job import Job, job_of
from ._submit import Path, Program


def _ask_once(request: Any, deadline: Optional[float]) -> Any:
    """One question over a connection of its own; `deadline` on the monotonic clock, in s."""

    def bound(stream: socket.socket) -> None:
        if deadline is not None:
            left = deadline - clock.monotonic()
            if left <= 0:
                raise TimeoutError
            stream.settimeout(left)

    with _wire.connect() as stream:
        answers = _wire.Answers()
        try:
            bound(stream)
            stream.sendall(_wire.request_bytes(request))
        except (BrokenPipeError, ConnectionResetError):
            pass  # A client that is not let in is told why.
        while True:
            answer = answers.poll()
            if answer is not None:
                return answer
            try:
                bound(stream)
                answers.feed(stream.recv(1 << 16))
            except ConnectionResetError:
                raise _wire.Closed() from None
            except socket.timeout:  # Python 3.9 has no other name for it.
                raise TimeoutError from None


def _query(request: Any) -> List[Any]:
    """Rows of a query; a daemon that is being replaced is asked again."""
    patience = clock.monotonic() + _wire.LEAVING_S
    while True:
        try:
            return _wire.rows_of(_ask_once(request, clock.monotonic() + _wire.QUERY_S))
        except _wire.Closed:
            if clock.monotonic() > patience:
                raise
        except TimeoutError:
            raise _wire.Error(f"the daemon has not answered for {_wire.QUERY_S:.0f} s") from None
        clock.sleep(_wire.RETRY_S)


def _run(words: Sequence[str], cwd: Optional[Path] = None) -> str:
    try:
        ran = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        raise _submit.not_started(words, error) from None
    return _submit.printed(words, ran.returncode, ran.stdout, ran.stderr)


def submit(
    program: Program,
    *,
    ranks: Optional[int] = None,
    nodes: Optional[int] = None,
    name: Optional[str] = None,
    time: Union[datetime.timedelta, str, None] = None,
    output: Optional[Path] = None,
    errors: Optional[Path] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Path] = None,
    after_ok: Sequence[SupportsInt] = (),
    options: Sequence[str] = (),
) -> int:
    """Gives the cluster a parallel program to run, and does not wait for it.

    :param program: the program, or a list of it and its arguments; no shell reads them.
    :param ranks: processes of it; none: one for each slot of its nodes.
    :param nodes: nodes that it gets; none: as many as its ranks need.
    :param name: what you call it.
    :param time: how long its ranks may run: a time (seconds are the finest), or a text such as ``"1h30m"``.
    :param output: file for stdout, with ``%j``, ``%r``, ``%N`` for job, rank, node; ``"none"`` keeps the last MiB alone.
    :param errors: the same for stderr; none: with stdout.
    :param env: variables that it has besides those of this process.
    :param cwd: its working directory, in which relative names of files are; none: that of this process.
    :param after_ok: jobs that must end with status 0 before it begins.
    :param options: further options of ``tutti submit``, as words.
    :returns: the number of the job.
    :raises Refused: where ``tutti submit`` or the daemon refuses; the text says why.
    """
    words = _submit.submit_words(
        program,
        ranks=ranks,
        nodes=nodes,
        name=name,
        time=time,
        output=output,
        errors=errors,
        env=env,
        after_ok=after_ok,
        options=options,
    )
    return _submit.number_of(_run(words, cwd))


def jobs(*, over: bool = False) -> List[Job]:
    """All jobs of the cluster, of all users.

    :param over: those that are over too, as far as the controller still knows them.
    :raises NoDaemon: where no daemon answers.
    """
    return [job_of(row) for row in _query({"Jobs": {"all": over}})]


def job(number: SupportsInt) -> Job:
    """One job as it is now.

    :raises Refused: where there is no such job.
    """
    return job_of(_query({"Job": int(number)})[0])


def wait(job: SupportsInt, timeout: Optional[float] = None) -> Job:
    """Waits until a job is over; gives it with its status. A daemon that is replaced meanwhile is no matter.

    :param timeout: at most so many seconds; none: for ever.
    :raises TimeoutError: where the job is not over then; it goes on.
    :raises Refused: where there is no such job.
    """
    deadline = None if timeout is None else clock.monotonic() + timeout
    lost: Optional[float] = None
    while True:
        try:
            return job_of(_wire.rows_of(_ask_once({"Wait": int(job)}, deadline))[0])
        except TimeoutError:
            raise TimeoutError(f"job {int(job)} is not over after {timeout} s") from None
        except _wire.Closed:
            lost = clock.monotonic()
        except _wire.NoDaemon:
            # The one that was there has gone: the next one may take its place.
            if lost is None or clock.monotonic() > lost + _wire.RECONNECT_S:
                raise
        if deadline is not None and clock.monotonic() > deadline:
            raise TimeoutError(f"job {int(job)} is not over after {timeout} s")
        clock.sleep(_wire.RETRY_S)


def cancel(job: SupportsInt) -> None:
    """Kills a job, or takes it back where it waits.

    :raises Refused: where it is another user's, is over, or does not exist.
    """
    _ask_once({"Control": [int(job), "Kill"]}, None)


def hold(job: SupportsInt) -> None:
    """Holds a job that waits: it gets no nodes until it is released.

    :raises Refused: where it has its nodes, is another user's, is over, or does not exist.
    """
    _ask_once({"Control": [int(job), "Hold"]}, None)


def release(job: SupportsInt) -> None:
    """Releases a job that is held.

    :raises Refused: where root holds it, or it is another user's, is over, or does not exist.
    """
    _ask_once({"Control": [int(job), "Release"]}, None)


def why(job: SupportsInt) -> List[str]:
    """Why a job does not go on, or that it does: lines for people, the reason first, as ``tutti why`` has them.

    :raises Refused: where there is no such job.
    """
    return _submit.reasons_of(_run(_submit.why_words(job)))
