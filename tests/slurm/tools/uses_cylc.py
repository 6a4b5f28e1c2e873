"""cylc: a graph of tasks as jobs, one that fails and is recovered from, and one that is killed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CYLC = str(Path(sys.executable).parent / "cylc")
here = Path.cwd()
os.environ["HOME"] = str(here)
os.environ["CYLC_CONF_PATH"] = str(here / "conf")
(here / "conf").mkdir()
(here / "conf" / "global.cylc").write_text(
    # Jobs have a login shell, which may have another PATH.
    f"""
[platforms]
    [[slurm]]
        hosts = localhost
        cylc path = {Path(CYLC).parent}
        job runner = slurm
        install target = localhost
        submission polling intervals = PT2S
        execution polling intervals = PT2S
        communication method = poll
"""
)
source = here / "cylc-run" / "flow"
source.mkdir(parents=True)
(source / "flow.cylc").write_text(
    f"""
[scheduler]
    allow implicit tasks = False
    [[events]]
        stall timeout = PT2M
        abort on stall timeout = True
        inactivity timeout = PT4M
        abort on inactivity timeout = True
[scheduling]
    [[graph]]
        R1 = '''
            first => second & failing?
            failing:fail? => recovery
            long:start => killer
            long:fail? => last
            second & recovery => last
        '''
[runtime]
    [[root]]
        platform = slurm
        execution time limit = PT5M
        [[[directives]]]
            --ntasks = 1
            --mem = 50M
    [[first, second, recovery, last]]
        script = echo "$CYLC_TASK_NAME $SLURM_JOB_ID"
    [[failing]]
        script = exit 3
    [[long]]
        script = sleep 1000
    [[killer]]
        script = {shutil.which("scancel")} -n long.1.flow
"""
)
ran = subprocess.run([CYLC, "play", "--no-detach", "flow"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
assert ran.returncode == 0, ran.stdout
log = source / "log" / "job" / "1"
for task, said in [("first", "succeeded"), ("second", "succeeded"), ("failing", "failed"), ("recovery", "succeeded"), ("long", "failed"), ("last", "succeeded")]:
    status = (log / task / "NN" / "job.status").read_text()
    assert ("CYLC_JOB_EXIT=SUCCEEDED" in status) == (said == "succeeded"), (task, status, ran.stdout)
    assert "CYLC_JOB_ID=" in status and "CYLC_JOB_RUNNER_NAME=slurm" in status, status
