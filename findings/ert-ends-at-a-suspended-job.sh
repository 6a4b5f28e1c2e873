#!/bin/bash
# ert 23.0.1 (the last one for Python 3.11): its driver for Slurm stops watching for ever when any job in the queue, of whatever
# user, is in a state that it does not know. It asks `squeue -h --format="%i %T"` for the jobs of all users and looks each state
# up in a table without SUSPENDED, STOPPED, STAGE_OUT, SIGNALING, RESIZING, REQUEUED: KeyError ends the task that polls. Under
# PreemptMode=SUSPEND,GANG suspended jobs are what a queue ordinarily has. Its own job is not heard of any more. The commands of
# Slurm are lines of a shell here. Of ert only the driver is loaded, with pydantic.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --no-deps ert==23.0.1
venv/bin/pip install --quiet --disable-pip-version-check pydantic==2.11.10 2>/dev/null
mkdir bin
printf '#!/bin/sh\necho 12\n' >bin/sbatch
printf '#!/bin/sh\necho "12 RUNNING"; echo "77 $OTHER"\n' >bin/squeue
chmod +x bin/*
cat >driver.py <<'END'
import asyncio, glob, logging, os, pathlib, sys, types

logging.disable(logging.CRITICAL)
base = glob.glob("venv/lib/python3*/site-packages/ert")[0]
for name, path in ("ert", base), ("ert.scheduler", base + "/scheduler"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
from ert.scheduler.slurm_driver import SlurmDriver


async def polled(other):
    os.environ["OTHER"] = other
    driver = SlurmDriver(poll_period=0.1)
    await driver.submit(0, "true", runpath=pathlib.Path.cwd())
    poll = asyncio.create_task(driver.poll())
    event = asyncio.create_task(driver.event_queue.get())
    await asyncio.wait([poll, event], timeout=30, return_when=asyncio.FIRST_COMPLETED)
    end = type(event.result()).__name__ if event.done() else repr(poll.exception()) if poll.done() else "nothing in 30 s"
    poll.cancel(), event.cancel()
    return end


seen = {state: asyncio.run(polled(state)) for state in ("RUNNING", "SUSPENDED")}
for state, end in seen.items():
    print(f"ert 23.0.1: a job of its own is RUNNING, that of another is {state}: {end}")
assert seen == {"RUNNING": "StartedEvent", "SUSPENDED": "KeyError('SUSPENDED')"}, "this has changed"
END
PATH=$work/bin:$PATH timeout 120 venv/bin/python driver.py
