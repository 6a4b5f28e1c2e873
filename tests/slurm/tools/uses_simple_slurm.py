"""simple_slurm: a script by here-document, the list as CSV, an array, a dependency, the end."""

import pathlib
import time

from simple_slurm import Slurm


def await_that(what, is_so, limit=60):
    until = time.monotonic() + limit
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.1)


here = pathlib.Path.cwd()
first = Slurm(job_name="abc", time="00:01:00", exclusive=True, output=f"{here}/first_%j.out")
number = first.sbatch("while [ ! -e go ]; do sleep 0.05; done; echo hi $SLURM_JOB_ID")


def listed(slurm, job):
    slurm.squeue.update_squeue()
    jobs = slurm.squeue.jobs
    return {str(row["JOBID"]): row for row in (jobs.values() if isinstance(jobs, dict) else jobs)}.get(str(job))


row = listed(first, number)
assert row and row["NAME"] == "abc", first.squeue.jobs
await_that("it runs", lambda: listed(first, number)["ST"] == "R")
second = Slurm(array=range(3, 6), dependency=dict(afterok=number), output=f"{here}/second_%A_%a.out")
array = second.sbatch("echo element $SLURM_ARRAY_TASK_ID")
(here / "go").touch()
await_that("the array's files", lambda: all((here / f"second_{array}_{task}.out").exists() for task in range(3, 6)))
await_that("the array's text", lambda: (here / f"second_{array}_5.out").read_text() == "element 5\n")
assert (here / f"first_{number}.out").read_text() == f"hi {number}\n"
third = Slurm(job_name="long")
number = third.sbatch("sleep 1000")
assert listed(third, number), third.squeue.jobs
third.scancel.cancel_job(number)
await_that("the cancelled job is gone", lambda: listed(third, number) is None)
