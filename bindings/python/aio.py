"""The functions of :mod:`tutti` as coroutines of asyncio, with the same arguments, results and errors.

    job = await tutti.aio.submit("./a.out", ranks=4)
    ended = await asyncio.wait_for(tutti.aio.wait(job), 60)

A coroutine that is cancelled asks no more; what it has asked for stays as it is: a job goes on.
"""

from __future__ import annotations

import asyncio
import datetime
from typing import Any, List, Mapping, Optional, Sequence, SupportsInt, Union

from . import _submit, _wire
from ._job import Job, job_of
from ._submit import Path, Program

__all__ = ["cancel", "hold", "job", "jobs", "release", "submit", "wait", "why"]


async def _ask_once(request: Any) -> Any:
    # A local socket answers a connection at once.
    reader, writer = await asyncio.open_unix_connection(sock=_wire.connect())
    answers = _wire.Answers()
    try:
        writer.write(_wire.request_bytes(request))
        while True:
            answer = answers.poll()
            if answer is not None:
                return answer
            try:
                answers.feed(await reader.read(1 << 16))
            except (BrokenPipeError, ConnectionResetError):
                raise _wire.Closed() from None
    finally:
        writer.close()


async def _query(request: Any) -> List[Any]:
    loop = asyncio.get_running_loop()
    patience = loop.time() + _wire.LEAVING_S
    while True:
        try:
            return _wire.rows_of(await asyncio.wait_for(_ask_once(request), _wire.QUERY_S))
        except _wire.Closed:
            if loop.time() > patience:
                raise
        except asyncio.TimeoutError:
            raise _wire.Error(f"the daemon has not answered for {_wire.QUERY_S:.0f} s") from None
        await asyncio.sleep(_wire.RETRY_S)


async def _run(words: Sequence[str], cwd: Optional[Path] = None) -> str:
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*words, cwd=cwd, stdin=null, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise _submit.not_started(words, error) from None
    stdout, stderr = await process.communicate()
    return _submit.printed(words, process.returncode or 0, stdout, stderr)


async def submit(
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
    """As :func:`tutti.submit`."""
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
    return _submit.number_of(await _run(words, cwd))


async def jobs(*, over: bool = False) -> List[Job]:
    """As :func:`tutti.jobs`."""
    return [job_of(row) for row in await _query({"Jobs": {"all": over}})]


async def job(number: SupportsInt) -> Job:
    """As :func:`tutti.job`."""
    return job_of((await _query({"Job": int(number)}))[0])


async def wait(job: SupportsInt) -> Job:
    """As :func:`tutti.wait`; ``asyncio.wait_for`` bounds it."""
    loop = asyncio.get_running_loop()
    lost: Optional[float] = None
    while True:
        try:
            return job_of(_wire.rows_of(await _ask_once({"Wait": int(job)}))[0])
        except _wire.Closed:
            lost = loop.time()
        except _wire.NoDaemon:
            # The one that was there has gone: the next one may take its place.
            if lost is None or loop.time() > lost + _wire.RECONNECT_S:
                raise
        await asyncio.sleep(_wire.RETRY_S)


async def cancel(job: SupportsInt) -> None:
    """As :func:`tutti.cancel`."""
    await _ask_once({"Control": [int(job), "Kill"]})


async def hold(job: SupportsInt) -> None:
    """As :func:`tutti.hold`."""
    await _ask_once({"Control": [int(job), "Hold"]})


async def release(job: SupportsInt) -> None:
    """As :func:`tutti.release`."""
    await _ask_once({"Control": [int(job), "Release"]})


async def why(job: SupportsInt) -> List[str]:
    """As :func:`tutti.why`."""
    return _submit.reasons_of(await _run(_submit.why_words(job)))
