#!/bin/bash
# ert 23.0.1 (the last one for Python 3.11) and states of Slurm that its driver does not expect (squeue(1), JOB STATE CODES).
# For a job that was CANCELLED, by scancel or an administrator, it gives return code 0, as for COMPLETED. OUT_OF_MEMORY and
# NODE_FAIL are not in its table of ends: there is no event of such a job, however often it asks. FAILED with code 3 is right.
# And it asks `squeue -h --format="%i %T"` for the jobs of all users and looks each state up in a table without SUSPENDED:
# where a job of anybody is suspended, as jobs are by turns under PreemptMode=SUSPEND,GANG, a KeyError ends the task that
# polls, and there is no event of its own job either. The commands of Slurm are lines of a shell here: the states that they
# tell never change. Of ert only the driver is loaded, with pydantic: the rest of it needs Qt, netCDF and HDF5.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pydantic==2.11.10
venv/bin/pip install --quiet --disable-pip-version-check --no-deps ert==23.0.1
mkdir bin
say() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"; }
say sbatch 'echo 12'
say squeue 'echo . >>asked; [ -z "$OTHER" ] || { echo "12 RUNNING"; echo "77 $OTHER"; }' # without OTHER 12 has ended
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


async def seen(**states):
    os.environ.update({"STATE": "", "CODE": "", "OTHER": "", **states})
    asked = pathlib.Path("asked")
    asked.write_text("")
    driver = SlurmDriver(poll_period=0.1)
    await driver.submit(0, "true", runpath=pathlib.Path.cwd())
    poll = asyncio.create_task(driver.poll())
    while driver.event_queue.empty() and not poll.done() and len(asked.read_text().split()) <= 10:
        await asyncio.sleep(0.05)
    if not driver.event_queue.empty():
        event = driver.event_queue.get_nowait()
        end = f"{type(event).__name__} {getattr(event, 'returncode', '')}".strip()
    else:
        end = repr(poll.exception()) if poll.done() else "no event after squeue was asked ten times"
    poll.cancel()
    return end


ends = ("COMPLETED", "0:0"), ("FAILED", "3:0"), ("CANCELLED", "0:15"), ("OUT_OF_MEMORY", "0:125"), ("NODE_FAIL", "1:0")
for state, code in ends:
    print(f"ert 23.0.1, its job has ended {state}: {asyncio.run(seen(STATE=state, CODE=code))}")
for other in "RUNNING", "SUSPENDED":
    print(f"ert 23.0.1, its job runs, one of another user is {other}: {asyncio.run(seen(OTHER=other))}")
END
PATH=$work/bin:$PATH timeout 120 venv/bin/python driver.py | tee said
cat >expected <<'END'
ert 23.0.1, its job has ended COMPLETED: FinishedEvent 0
ert 23.0.1, its job has ended FAILED: FinishedEvent 3
ert 23.0.1, its job has ended CANCELLED: FinishedEvent 0
ert 23.0.1, its job has ended OUT_OF_MEMORY: no event after squeue was asked ten times
ert 23.0.1, its job has ended NODE_FAIL: no event after squeue was asked ten times
ert 23.0.1, its job runs, one of another user is RUNNING: StartedEvent
ert 23.0.1, its job runs, one of another user is SUSPENDED: KeyError('SUSPENDED')
END
cmp -s said expected || { echo "this has changed"; exit 1; }
