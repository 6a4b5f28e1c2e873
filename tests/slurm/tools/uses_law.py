"""law: its manager of Slurm jobs submits, asks for several at once by squeue and then by sacct, and cancels."""

import os
import stat
import time
from pathlib import Path

os.environ["LAW_HOME"] = str(Path("law").resolve())
import law

law.contrib.load("slurm")
manager = law.slurm.SlurmJobManager(partition="tutti")


def submit(name, command):
    file = Path(f"{name}.sh")
    file.write_text(f"#!/bin/bash\n#SBATCH --job-name {name}\n#SBATCH --output {name}.out\n{command}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return manager.submit(file.resolve())


def await_states(states):
    until = time.monotonic() + 60
    while (seen := {job: row["status"] for job, row in manager.query(list(states)).items()}) != states:
        assert time.monotonic() < until, (seen, states)
        time.sleep(0.5)


good = submit("good", "echo $SLURM_JOB_PARTITION")
bad = submit("bad", "exit 5")
long = submit("long", "sleep 1000")
await_states({good: "finished", bad: "failed", long: "running"})
assert Path("good.out").read_text() == "tutti\n"
assert manager.query(bad)["code"] == 5, manager.query(bad)
manager.cancel([long])
await_states({good: "finished", bad: "failed", long: "failed"})
late = submit("late", "sleep 1000")
assert manager.query(late)["status"] in ("pending", "running")
manager.cancel(late)
await_states({late: "failed"})
