"""Services of Tutti from Python: functions that other processes offer by a name, here or on another node.

    from tutti.services import Client

    with Client("alice/kv@*") as kv:
        kv.put(17, "seventeen")
        print(kv.get(17), kv.call("get", 18, timeout=2.0))

The service says what its functions take and give; arguments are checked against that before anything is sent.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any, Callable

from ._wire import Error

__all__ = ["Client", "Fault", "Thrown"]

_BYTES_MAX = 32768
_THREW = -21
_TEXTS = {
    -1: "letters, digits and . _ - are expected, at most 64, or USER/NAME, or NAME@NODE",
    -4: "it is not for this user, or another user has taken its name",
    -7: "what listens under its name does not answer as a service",
    -9: "it has ended",
    -10: "no memory or descriptor is left",
    -12: "it has too many clients, or its queue stays full, or a call of it runs",
    -15: "this node has no daemon that can be asked for services of other nodes",
    -16: "the cluster has no such node, or it does not answer",
    -19: "arguments or result have more than 32768 bytes",
    -22: "there is none",
    -23: "it has no such function, or it takes or gives other types",
    -24: "the time is over; the function may have run",
    -25: "it has ended while the call was under way; the function may have run",
}
_NUMBERS = {
    "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q",
    "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
    "f32": "<f", "f64": "<d",
}  # fmt: skip


class Fault(Error):
    """A call has no result; ``status`` is the number of ``tutti_call.h``."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Thrown(Fault):
    """The function has thrown: ``type`` is the name of the exception's type there."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(_THREW, f"{kind}: {text}" if kind else text)
        self.type = kind


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, some: int) -> bytes:
        if some > len(self.data) - self.at:
            raise Fault(-7, "a result of another length")
        self.at += some
        return self.data[self.at - some : self.at]

    def count(self) -> int:
        found: int = struct.unpack("<Q", self.take(8))[0]
        if found > len(self.data) - self.at:
            raise Fault(-7, "a result of another length")
        return found


class _Type:
    """A type of a signature: its text, and values of it as they travel."""

    def __init__(self, text: str, parts: list[_Type]) -> None:
        self.text, self.parts = text, parts

    def put(self, value: Any, out: bytearray) -> None:
        if self.text in _NUMBERS:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{value!r} is no {self.text}")
            try:
                out += struct.pack(_NUMBERS[self.text], value)
            except (struct.error, OverflowError) as error:
                raise TypeError(f"{value!r} is no {self.text}") from error
        elif self.text == "bool":
            if not isinstance(value, bool):
                raise TypeError(f"{value!r} is no bool")
            out.append(int(value))
        elif self.text == "str":
            if not isinstance(value, (str, bytes)):
                raise TypeError(f"{value!r} is no text")
            data = value.encode() if isinstance(value, str) else value
            out += struct.pack("<Q", len(data)) + data
        elif self.text == "vec":
            out += struct.pack("<Q", len(value))
            for one in value:
                self.parts[0].put(one, out)
        elif self.text == "opt":
            out.append(int(value is not None))
            if value is not None:
                self.parts[0].put(value, out)
        elif self.text == "tuple":
            if len(value) != len(self.parts):
                raise TypeError(f"{value!r} has not {len(self.parts)} parts")
            for part, one in zip(self.parts, value):
                part.put(one, out)

    def get(self, data: _Reader) -> Any:
        if self.text in _NUMBERS:
            layout = _NUMBERS[self.text]
            return struct.unpack(layout, data.take(struct.calcsize(layout)))[0]
        if self.text == "str":
            return data.take(data.count()).decode(errors="replace")
        if self.text == "vec":
            return [self.parts[0].get(data) for _ in range(data.count())]
        if self.text == "tuple":
            return tuple(part.get(data) for part in self.parts)
        if self.text == "void":
            return None
        flag = data.take(1)[0]
        if flag > 1:
            raise Fault(-7, "a truth value that is neither true nor false")
        if self.text == "bool":
            return flag == 1
        return self.parts[0].get(data) if flag else None


class _Signature:
    def __init__(self, text: str) -> None:
        self.text = text
        self.name, rest = text.split("(", 1)
        self._rest = rest
        self.takes = self._list()
        if not self._rest.startswith("->"):
            raise ValueError(text)
        self._rest = self._rest[2:]
        self.gives = self._one()
        if self._rest:
            raise ValueError(text)

    def _list(self) -> list[_Type]:
        found: list[_Type] = []
        while not self._rest.startswith(")"):
            found.append(self._one())
            if self._rest.startswith(","):
                self._rest = self._rest[1:]
            elif not self._rest.startswith(")"):
                raise ValueError(self.text)
        self._rest = self._rest[1:]
        return found

    def _one(self) -> _Type:
        end = next((at for at, c in enumerate(self._rest) if not c.isalnum()), len(self._rest))
        word, self._rest = self._rest[:end], self._rest[end:]
        if word in ("vec", "opt", "tuple") and self._rest.startswith("("):
            self._rest = self._rest[1:]
            parts = self._list()
            if word != "tuple" and len(parts) != 1:
                raise ValueError(self.text)
            return _Type(word, parts)
        if word not in _NUMBERS and word not in ("bool", "str", "void"):
            raise ValueError(self.text)
        return _Type(word, [])


def _library() -> ctypes.CDLL:
    """The library of the tree in this package, else the one that the loader finds."""
    here = Path(__file__).resolve()
    trees = [here.parent / "_tree/lib", here.parents[2] / "lib" if len(here.parents) > 2 else here.parent]
    for folder in trees:
        if (folder / "libtutti.so.1").exists():
            return ctypes.CDLL(str(folder / "libtutti.so.1"))
    return ctypes.CDLL("libtutti.so.1")


def _ns(seconds: float) -> ctypes.c_int64:
    return ctypes.c_int64(int(max(0, min(seconds * 1e9, 2**62))))


class Client:
    """A connection to a service: ``name``, ``user/name``, ``name@node``; ``name@*`` is any node that has it.

    Functions of the service are methods. One thread at a time calls. A service that has no turn is waited for,
    ``timeout`` seconds at most.
    """

    def __init__(self, name: str, timeout: float = 60.0) -> None:
        self._name, self._timeout, self._handle = name, timeout, ctypes.c_int64(0)
        self._lib = _library()
        if "\0" in name:
            self._expect(-1)
        status = self._lib.tutti_client_open(name.encode(), _ns(timeout), ctypes.byref(self._handle))
        self._expect(status)
        room, size = ctypes.create_string_buffer(_BYTES_MAX), ctypes.c_size_t(_BYTES_MAX)
        self._expect(self._lib.tutti_client_signatures(self._handle, room, ctypes.byref(size)))
        self.signatures = room.raw[: size.value].decode(errors="replace").splitlines()
        self._functions = {text.split("(", 1)[0]: text for text in self.signatures}

    def _expect(self, status: int) -> None:
        if status != 0:
            raise Fault(status, f"service {self._name}: {_TEXTS.get(status, f'error {status}')}")

    def call(self, function: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Calls a function, and gives its result."""
        text = self._functions.get(function)
        if text is None:
            raise Fault(-23, f"service {self._name} has no function {function}")
        try:
            signature = _Signature(text)
        except (ValueError, RecursionError):
            raise Fault(-23, f"{text}: types that cannot be called from here") from None
        if len(arguments) != len(signature.takes):
            raise TypeError(f"{text} takes {len(signature.takes)} arguments, not {len(arguments)}")
        out = bytearray()
        for one, value in zip(signature.takes, arguments):
            one.put(value, out)
        room, size = ctypes.create_string_buffer(_BYTES_MAX), ctypes.c_size_t(_BYTES_MAX)
        within = self._timeout if timeout is None else timeout
        status = self._lib.tutti_client_call(
            self._handle, text.encode(), bytes(out), ctypes.c_size_t(len(out)), _ns(within), room, ctypes.byref(size)
        )
        data = room.raw[: size.value]
        if status == _THREW:
            kind, _, what = data.decode(errors="replace").partition("\0")
            raise Thrown(kind, what)
        self._expect(status)
        reader = _Reader(data)
        value = signature.gives.get(reader)
        if reader.at != len(data):
            raise Fault(-7, "a result of another length")
        return value

    def __getattr__(self, function: str) -> Callable[..., Any]:
        if function.startswith("_") or function not in self._functions:
            raise AttributeError(f"service {self._name} has no function {function}")
        return lambda *arguments, timeout=None: self.call(function, *arguments, timeout=timeout)

    def close(self) -> None:
        """Ends the connection."""
        if self._handle.value:
            self._lib.tutti_client_close(self._handle)
            self._handle = ctypes.c_int64(0)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
