"""troika: a script with directives of its own is submitted by stdin, watched, and killed while it waits and while it runs."""

import subprocess
import sys
import time
from pathlib import Path

TROIKA = str(Path(sys.executable).parent / "troika")
Path("troika.yml").write_text("sites:\n  here: {type: slurm, connection: local}\n")
user = subprocess.run(["id", "-un"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def troika(*words):
    ran = subprocess.run([TROIKA, "-c", "troika.yml", words[0], "-u", user, "-o", str(Path("out").resolve()), "here", *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def submit(name, command, *directives):
    lines = [f"#TROIKA {line}" for line in (f"name={name}", "total_tasks=2", "walltime=00:05:00", "export_vars=none", *directives)]
    Path(f"{name}.sh").write_text("\n".join(["#!/bin/bash", *lines, command, ""]))
    troika("submit", f"{name}.sh")
    return Path(f"{name}.sh.jid").read_text().strip()


def state(job):
    return subprocess.run(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def await_state(job, wanted):
    until = time.monotonic() + 60
    while state(job) != wanted:
        assert time.monotonic() < until, (job, state(job), wanted)
        time.sleep(0.2)


first = submit("first", "srun echo task >tasks")
await_state(first, "COMPLETED")
assert Path("tasks").read_text() == "task\ntask\n"
second = submit("second", "exec sleep 1000")
await_state(second, "RUNNING")
troika("monitor", "second.sh")
assert second in Path("second.sh.stat").read_text()
troika("kill", "second.sh")
await_state(second, "CANCELLED")
third = submit("third", "true", "total_nodes=3", "total_tasks=6", "exclusive=yes")
await_state(third, "COMPLETED")
# One that is over can be killed again.
troika("kill", "third.sh")
