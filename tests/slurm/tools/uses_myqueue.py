"""myqueue: tasks with a dependency, one that fails and takes its successor with it, one that is held, released and removed."""

import subprocess
import sys
import time
from pathlib import Path

MQ = str(Path(sys.executable).parent / "mq")


def mq(*words):
    ran = subprocess.run([MQ, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    assert ran.returncode == 0, (words, ran.stdout)
    return ran.stdout


mq("init")
Path(".myqueue/config.py").write_text("config = {'scheduler': 'slurm', 'nodes': [('tutti', {'cores': 2, 'memory': '1G'})], 'mpiexec': 'mpiexec', 'parallel_python': 'python3'}\n")
for name, lines in [("first", "print('first')"), ("second", "print('second')"), ("bad", "raise SystemExit(3)"), ("after", "print('never')"), ("long", "import time; time.sleep(1000)")]:
    Path(f"{name}.py").write_text(lines + "\n")
mq("submit", "first.py", "-R", "1:5m")
mq("submit", "second.py", "-R", "1:5m", "-d", "first.py")
mq("submit", "bad.py", "-R", "1:5m")
mq("submit", "after.py", "-R", "1:5m", "-d", "bad.py")
mq("submit", "long.py", "-R", "1:5m")


def states():
    rows = [line.split() for line in mq("list", "-c", "ns", "--not-recursive").splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2}


wanted = {"first.py": "done", "second.py": "done", "bad.py": "FAILED", "after.py": "CANCELED", "long.py": "running"}
until = time.monotonic() + 120
while (seen := {name: state for name, state in states().items() if name in wanted}) != wanted:
    assert time.monotonic() < until, (seen, mq("list"))
    time.sleep(1)
mq("remove", "-s", "r", ".")
assert "long.py" not in states(), mq("list")
