#!/bin/bash
# A job of Slurm that is SUSPENDED "has an allocation, but execution has been suspended and CPUs have been released for other jobs"
# (squeue(1)), as under PreemptMode=SUSPEND,GANG each job is for half of its time. law 0.1.21 calls it failed, beside FAILED and
# TIMEOUT, and submits its task again while the job goes on; dask-gateway-server 2026.3.0 calls it not alive and ends the
# cluster or the worker. A job that waits or runs is as it should be for both. squeue is a line of a shell here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check law==0.1.21 "dask-gateway-server[jobqueue]==2026.3.0"
mkdir bin
cat >bin/squeue <<'END'
#!/bin/sh
case "$*" in
*--Format*) printf '%-20s%-20s\n' 12 "$LONG" ;;
*) echo "12 $SHORT" ;;
esac
END
chmod +x bin/squeue
cat >ask.py <<'END'
import asyncio, os, shutil
import law
from dask_gateway_server.backends.jobqueue.slurm import SlurmBackend

law.contrib.load("slurm")
dask = SlurmBackend.__new__(SlurmBackend)
dask.status_command = shutil.which("squeue")
# It runs the command with an empty environment.
get = dask.get_status_cmd_env
dask.get_status_cmd_env = lambda jobs: (get(jobs)[0], dict(os.environ))
for os.environ["LONG"], os.environ["SHORT"] in ("PENDING", "PD"), ("RUNNING", "R"), ("SUSPENDED", "S"):
    status = law.slurm.SlurmJobManager().query(12)["status"]
    lives = asyncio.run(dask.check_jobs(["12"]))["12"]
    print(f"{os.environ['LONG']}: law {status}, dask-gateway {'alive' if lives else 'ended'}")
END
LAW_HOME=$work PATH=$work/bin:$PATH timeout 120 venv/bin/python ask.py | tee said
cat >expected <<'END'
PENDING: law pending, dask-gateway alive
RUNNING: law running, dask-gateway alive
SUSPENDED: law failed, dask-gateway ended
END
cmp -s said expected || { echo "this has changed"; exit 1; }
