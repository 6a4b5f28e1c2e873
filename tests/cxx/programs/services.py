"""A client of services.cpp in Python."""

import os
import signal
import sys

from tutti.services import Client, Fault, Thrown


def fault(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except (Fault, TypeError) as error:
        return error
    raise AssertionError("nothing was raised")


name = sys.argv[1]
kv = Client(name)
assert kv.signatures[1] == "get(i64)->opt(str)", kv.signatures
assert kv.put(17, "seventeen") is None
assert kv.get(17) == "seventeen" and kv.get(18) is None
rows = [(1, "one", 1.5, True), (-2, "", None, False)]
assert kv.mirror(rows) == rows and kv.flag(True) is False
assert len(kv.text(32000)) == 32000
thrown = fault(kv.throws, 5)
assert isinstance(thrown, Thrown) and thrown.type == "std::out_of_range" and str(thrown).endswith("no? 5"), thrown
for wrong in ("17", 1.5, True, 2**63):
    assert isinstance(fault(kv.get, wrong), TypeError), wrong
assert isinstance(fault(kv.get), TypeError) and isinstance(fault(kv.mirror, [(1, 2)]), TypeError)
assert fault(kv.call, "none").status == -23
assert fault(kv.put, 1, "x" * 32768).status == -19
assert fault(Client, "no-such-service", timeout=1.0).status == -22
assert fault(Client, "a b").status == -1 and fault(Client, name + "\0b").status == -1
pid = kv.pid()
os.kill(pid, signal.SIGSTOP)
assert fault(kv.flag, True, timeout=0.1).status == -24
os.kill(pid, signal.SIGCONT)
assert kv.flag(False) is True and kv.flag(True, timeout=float("inf")) is False
kv.close()
print("python: ok")
