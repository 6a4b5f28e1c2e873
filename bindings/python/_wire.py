"""The daemon's local socket: where it is, and its frames. No I/O of a request is here: both faces bring their own.

| kind: u32 | rank: u32 | bytes: u32 | payload |      host byte order; payloads are JSON (crates/protocol/src/wire.rs)
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import tempfile
from typing import Any, List, Optional, Tuple

HEAD = struct.Struct("=III")
REQUEST, ANSWER, REPORT = 32, 33, 18
PAYLOAD_BYTES_MAX = 256 << 20
#: A daemon answers a query in this time, in s, or it is stopped.
QUERY_S = 11.0
#: A query to a daemon that is being replaced is tried again for so long, in s.
LEAVING_S = 2.0
#: A wait for a job awaits the next daemon for so long, in s.
RECONNECT_S = 60.0
#: Between two attempts, in s.
RETRY_S = 0.1

_SYSTEM = "/run/tutti"
_SOCKET = "tuttid.sock"
_BATCH_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
_log = logging.getLogger("tutti")


class Error(Exception):
    """What was asked for is not done; the text is one line for people."""


class NoDaemon(Error):
    """No daemon answers here, or none that may be trusted."""


class Refused(Error):
    """The daemon or ``tutti`` refuses: the text says why."""


class Closed(Error):
    """The daemon closed the connection without an answer: another one may take its place."""

    def __init__(self) -> None:
        super().__init__("the daemon closed the connection without an answer")


def _on_demand(folder: str) -> str:
    """The folder of the daemon that mpiexec starts by itself."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    batch = next((os.environ[name] for name in _BATCH_VARIABLES if name in os.environ), "")
    batch = "".join(c for c in batch if c.isascii() and c.isalnum())[:32]
    return os.path.join(folder, f"local-{space}-{batch}".rstrip("-"))


def places() -> Tuple[List[str], bool]:
    """Sockets of the daemon that is meant here, the first that answers; whether the user has named it."""
    named = os.environ.get("TUTTI_DAEMON")
    if named:
        is_folder = named != "none" and os.path.isdir(named)
        return [os.path.join(named, _SOCKET) if is_folder else named], True
    uid = os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = os.environ.get("TUTTI_DIR")
    if not folder and uid == 0:
        folder = _SYSTEM
    elif not folder:
        folder = os.path.join(runtime, "tutti") if runtime else os.path.join(tempfile.gettempdir(), f"tutti-{uid}")
    return [os.path.join(place, _SOCKET) for place in (folder, _SYSTEM, _on_demand(folder))], False


def connect() -> socket.socket:
    """A connection to the daemon.

    Raises :class:`NoDaemon` where none answers, or one of a user who is neither this one nor root.
    """
    sockets, is_named = places()
    why: Optional[OSError] = None
    for place in sockets:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            stream.connect(place)
        except OSError as error:
            stream.close()
            if isinstance(error, PermissionError):
                raise NoDaemon(f"the daemon at {place} is another user's: {error.strerror}") from None
            why = why or error
            continue
        peer = struct.unpack("=iII", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if is_named or peer in (0, os.geteuid()):
            return stream
        stream.close()
        raise NoDaemon(f"the daemon at {place} is user {peer}'s, which is neither you nor root: it is not asked")
    assert why is not None
    text = f"no daemon answers at {sockets[0]} ({why.strerror}): `tutti up --nodes N` starts a cluster on this machine"
    raise NoDaemon(text) from None


def request_bytes(request: Any) -> bytes:
    """The frame of a request."""
    payload = json.dumps(request).encode()
    return HEAD.pack(REQUEST, 0, len(payload)) + payload


class Answers:
    """Bytes of the daemon in, its answer out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Takes what has come; nothing: the daemon has closed the connection."""
        if not data:
            raise Closed()
        self._bytes += data

    def poll(self) -> Any:
        """The answer; none as long as it is not whole. Lines of the daemon about what it waits for are logged."""
        while len(self._bytes) >= HEAD.size:
            kind, _, length = HEAD.unpack_from(self._bytes)
            if length > PAYLOAD_BYTES_MAX:
                raise Error("the daemon is of another version")
            if len(self._bytes) < HEAD.size + length:
                return None
            payload = bytes(self._bytes[HEAD.size : HEAD.size + length])
            del self._bytes[: HEAD.size + length]
            if kind not in (ANSWER, REPORT):
                raise Error("the daemon is of another version")
            try:
                value = json.loads(payload)
            except ValueError:
                raise Error("the daemon is of another version") from None
            if kind == ANSWER and value is not None:
                return _checked(value)
            if isinstance(value, dict) and "Warning" in value:
                _log.warning("%s", value["Warning"])
        return None


def _checked(answer: Any) -> Any:
    if isinstance(answer, dict) and "Refused" in answer:
        raise Refused(answer["Refused"])
    return answer


def rows_of(answer: Any) -> List[Any]:
    """The jobs of an answer."""
    if not isinstance(answer, dict) or not isinstance(answer.get("Jobs"), list):
        raise Error("the daemon is of another version")
    rows: List[Any] = answer["Jobs"]
    return rows
