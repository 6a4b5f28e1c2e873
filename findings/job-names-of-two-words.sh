#!/bin/bash
# A job's name in Slurm may have blanks (#SBATCH --job-name="two words"). hpc-rocket 0.6.3 asks sacct for jobid,jobname%30,state and
# splits at blanks: the state of such a job is "words", which is neither pending nor running nor completed, so the job is over
# and has failed while it runs. DIRAC 9.1.22 asks squeue for "%j %T" and splits each row in two: one such job of its user in the
# partition, and the status of the whole computing element is a ValueError. Both have formats that cannot be misread
# (--parsable2; the state first). sacct and squeue are lines of a shell here. Of DIRAC only the file is loaded that it
# also copies to hosts without DIRAC.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check hpc-rocket==0.6.3 fs==2.4.16 fs.sshfs==1.0.2 \
    paramiko==3.5.1 rich==15.0.0 setuptools==80.9.0
venv/bin/pip install --quiet --disable-pip-version-check --no-deps dirac==9.1.22
mkdir bin
cat >bin/sacct <<'END'
#!/bin/sh
printf '%-12s %30s %10s \n' 12 "$NAME" RUNNING 12.batch batch RUNNING
END
cat >bin/squeue <<'END'
#!/bin/sh
echo "NAME STATE"; echo "$NAME RUNNING"
END
chmod +x bin/*
cat >ask.py <<'END'
import glob, importlib.util, os, subprocess
from hpcrocket.core.slurmcontroller import SlurmController

spec = importlib.util.spec_from_file_location("SLURM", glob.glob("venv/lib/python3*/site-packages/DIRAC/Resources/Computing/BatchSystems/SLURM.py")[0])
dirac = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dirac)


class Ran:
    def __init__(self, line):
        self.ran = subprocess.run(line, shell=True, capture_output=True, text=True)
    def wait_until_exit(self):
        return self.ran.returncode
    def stdout(self):
        return self.ran.stdout.splitlines()


class Executor:
    exec_command = staticmethod(Ran)


for os.environ["NAME"] in "one", "two words":
    status = SlurmController(Executor()).poll_status("12")
    print(f"hpc-rocket 0.6.3, {os.environ['NAME']}: state {status.state}, runs: {status.is_running}")
    try:
        element = dirac.SLURM().getCEStatus(Queue="main", User="eva")
        print(f"DIRAC 9.1.22, {os.environ['NAME']}: {element['Running']} running")
    except ValueError as error:
        print(f"DIRAC 9.1.22, {os.environ['NAME']}: ValueError: {error}")
END
PATH=$work/bin:$PATH timeout 120 venv/bin/python ask.py | tee said
cat >expected <<'END'
hpc-rocket 0.6.3, one: state RUNNING, runs: True
DIRAC 9.1.22, one: 1 running
hpc-rocket 0.6.3, two words: state words, runs: False
DIRAC 9.1.22, two words: ValueError: too many values to unpack (expected 2)
END
cmp -s said expected || { echo "this has changed"; exit 1; }
