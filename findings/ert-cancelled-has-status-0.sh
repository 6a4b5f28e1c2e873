#!/bin/bash
# ert 23.0.1 (the last one for Python 3.11): its driver for Slurm takes a job that was cancelled for one that ended well. It reads
# JobState from scontrol show job and gives CANCELLED the return code 0 that COMPLETED has, so a realization that scancel or an
# administrator has ended counts as done. OUT_OF_MEMORY, NODE_FAIL, PREEMPTED, BOOT_FAIL and DEADLINE (squeue(1), JOB STATE CODES)
# are not in its table: such a job never ends for it, there is no event of it at all. FAILED with code 3 is as it should be. The
# commands of Slurm are lines of a shell here: the states that they tell never change. Of ert only the driver is loaded, with
# pydantic: the rest of it needs Qt, netCDF and HDF5.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --no-deps ert==23.0.1
venv/bin/pip install --quiet --disable-pip-version-check pydantic==2.11.10 2>/dev/null
mkdir bin
say() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"; }
say sbatch 'echo 12'
say squeue 'exit 0' # it has ended
say scontrol 'echo "JobId=12 JobName=r UserId=eva(1000)"; echo "   JobState=$STATE ExitCode=$CODE"'
say sacct 'echo "$STATE|$CODE"'
cat >driver.py <<'END'
import asyncio, glob, logging, os, pathlib, sys, types

logging.disable(logging.CRITICAL)
base = glob.glob("venv/lib/python3*/site-packages/ert")[0]
for name, path in ("ert", base), ("ert.scheduler", base + "/scheduler"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
from ert.scheduler.slurm_driver import SlurmDriver


async def ended(state, code):
    os.environ.update(STATE=state, CODE=code)
    driver = SlurmDriver(poll_period=0.1)
    await driver.submit(0, "true", runpath=pathlib.Path.cwd())
    poll = asyncio.create_task(driver.poll())
    try:
        return (await asyncio.wait_for(driver.event_queue.get(), 5)).returncode
    except asyncio.TimeoutError:
        return "no event in 5 s"
    finally:
        poll.cancel()


states = [("COMPLETED", "0:0"), ("FAILED", "3:0"), ("CANCELLED", "0:15"), ("OUT_OF_MEMORY", "0:125"), ("NODE_FAIL", "1:0")]
seen = {state: asyncio.run(ended(state, code)) for state, code in states}
for state, end in seen.items():
    print(f"ert 23.0.1: {state}: {end}")
assert seen["FAILED"] == 3
assert seen["CANCELLED"] == seen["COMPLETED"] == 0, "this has changed"
assert seen["OUT_OF_MEMORY"] == seen["NODE_FAIL"] == "no event in 5 s", "this has changed"
END
PATH=$work/bin:$PATH timeout 120 venv/bin/python driver.py
