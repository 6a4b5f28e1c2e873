#!/bin/bash
# A job of Slurm that is SUSPENDED "has an allocation, but execution has been suspended and CPUs have been released for other
# jobs" (squeue(1)); under PreemptMode=SUSPEND,GANG jobs that share nodes are so by turns. It goes on later. For law 0.1.21
# it is "failed", as FAILED and TIMEOUT are; dask-gateway-server 2026.3.0 counts it among those that are not alive. Jobs
# that are PENDING or RUNNING are right in both. squeue is a line of a shell here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check law==0.1.21 luigi==3.8.1 six==1.17.0 \
    "dask-gateway-server[jobqueue]==2026.3.0" aiohttp==3.14.5 sqlalchemy==2.1.9 traitlets==5.16.1 colorlog==6.12.0 \
    cryptography==50.0.2
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
