"""reportseff, and slurm2sql beside it: accounts of jobs that ended well, have failed and run, as `sacct` gives them."""

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = Path(sys.executable).parent


def ran(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0 and "error" not in done.stderr.lower(), (words, done)
    return done.stdout


def submit(*words):
    return ran("sbatch", "--parsable", "-o", "/dev/null", *words).strip()


good = submit("-J good", "-t", "5", "--wrap=srun true")
bad = submit("-J bad", "--mem=50M", "--wrap=exit 3")
array = submit("--array=0-1", "--wrap=true")
until = time.monotonic() + 60
while ran("squeue", "-h"):
    assert time.monotonic() < until, ran("squeue")
    time.sleep(0.2)
running = submit("-J", "long", "--wrap=sleep 1000")
while running not in ran("squeue", "-h", "-t", "R", "-o", "%i"):
    assert time.monotonic() < until + 60, ran("squeue")
    time.sleep(0.2)

states = {good: "COMPLETED", bad: "FAILED", f"{array}_0": "COMPLETED", f"{array}_1": "COMPLETED", running: "RUNNING"}
user = ran("id", "-un").strip()
# By numbers, and by the user, where it asks from a date on, which it writes without separators.
for asked in [(good, bad, array, running), ("--user", user)]:
    report = ran(str(PROGRAMS / "reportseff"), "--no-color", "--format", "JobID,State,Elapsed,MemEff", *asked)
    rows = {words[0]: words[1] for words in map(str.split, report.splitlines()[1:]) if words}
    assert {job: rows.get(job) for job in states} == states, report

ran(str(PROGRAMS / "slurm2sql"), "jobs.db", "--", "-u", user)
rows = sqlite3.connect("jobs.db").execute("select JobID, State, ExitCode, ReqMem from slurm")
rows = {job: rest for job, *rest in rows}
assert {job: rows[job][0] for job in states} == states, rows
assert rows[bad][1:] == [3, 50 << 20], rows[bad]
assert rows[f"{good}.0"][0] == "COMPLETED" and f"{bad}.batch" in rows, rows
