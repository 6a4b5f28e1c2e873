#!/bin/bash
# pulsar-app 0.16.0: while Slurm's controller cannot be reached, its command-line plugin of Slurm takes each job for complete.
# A job that squeue has no row of is one that has ended well to it, and it does not look why there is none: squeue says
# "Unable to contact slurm controller" on stderr and exits with 1. The exit code would not help it: its LocalShell gives
# returncode 0 for each command. A job that has reached its limit or is suspended (TO, S) has the state None. squeue is a
# line of a shell here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check galaxy-util==26.1.2 webob==1.8.11 psutil==7.2.2 pyyaml==6.0.4 \
    paramiko==5.1.0 typing-extensions==4.16.0
venv/bin/pip install --quiet --disable-pip-version-check --no-deps pulsar-app==0.16.0
mkdir bin
cat >bin/squeue <<'END'
#!/bin/sh
[ -n "$STATE" ] || { echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1; }
echo "JOBID ST"; echo "12 $STATE"
END
chmod +x bin/squeue
cat >ask.py <<'END'
import os
from pulsar.managers.util.cli.job.slurm import Slurm
from pulsar.managers.util.cli.shell.local import LocalShell

slurm, shell = Slurm(), LocalShell()
for os.environ["STATE"] in "R", "S", "TO", "":
    ran = shell.execute(slurm.get_single_status("12"))
    state = slurm.parse_single_status(ran.stdout, "12")
    print(f"pulsar-app 0.16.0, {os.environ['STATE'] or 'controller away'}: {getattr(state, 'value', state)}")
print("pulsar-app 0.16.0, exit 3:", shell.execute("exit 3").returncode)
END
PATH=$work/bin:$PATH timeout 120 venv/bin/python ask.py | tee said
cat >expected <<'END'
pulsar-app 0.16.0, R: running
pulsar-app 0.16.0, S: None
pulsar-app 0.16.0, TO: None
pulsar-app 0.16.0, controller away: complete
pulsar-app 0.16.0, exit 3: 0
END
cmp -s said expected || { echo "this has changed"; exit 1; }
