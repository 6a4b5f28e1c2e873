"""easybuild-framework: its backend queues jobs with --hold and --wrap, one that depends on another, and releases them at the end."""

import subprocess
import time
from pathlib import Path

from easybuild.tools.options import set_up_configuration

set_up_configuration(args=["--job-backend=Slurm", "--allow-use-as-root-and-accept-consequences"], silent=True)
from easybuild.tools.job.slurm import Slurm


def states(*jobs):
    answer = subprocess.run(["sacct", "-X", "-n", "-P", "-o", "State", "-j", ",".join(jobs)], stdout=subprocess.PIPE, text=True, check=True)
    return answer.stdout.split("\n")[:-1]


backend = Slurm()
backend.init()
# No module but its name is asked for.
jobs = [backend.make_job(script, name, env_vars={"PATH": ""}, hours=1, cores=2) for name, script in [("first", "echo first >text"), ("second", "cat text >read"), ("bad", "exit 3"), ("never", "true")]]
for job in jobs:
    job.module = job.name
backend.queue(jobs[0])
backend.queue(jobs[1], [jobs[0]])
backend.queue(jobs[2])
backend.queue(jobs[3], [jobs[2]])
numbers = [job.jobid for job in jobs]
assert states(*numbers) == ["PENDING"] * 4, states(*numbers)
backend.complete()
until = time.monotonic() + 60
while (seen := states(*numbers)[:3]) != ["COMPLETED", "COMPLETED", "FAILED"]:
    assert time.monotonic() < until, seen
    time.sleep(0.2)
assert Path("read").read_text() == "first\n"
# --kill-on-invalid-dep: it does not stay in the queue.
while not states(numbers[3])[0].startswith("CANCELLED"):
    assert time.monotonic() < until, states(numbers[3])
    time.sleep(0.2)
