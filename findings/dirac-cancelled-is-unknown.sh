#!/bin/bash
# DIRAC 9.1.22: a pilot that was cancelled in Slurm is Unknown for ever, not Aborted. DIRAC asks sacct for State with -P. sacct
# adds who has cancelled the job, "CANCELLED by 1000" (sacct(1): "CANCELLED ... by UID"), and DIRAC looks for the word
# CANCELLED alone. OUT_OF_MEMORY is Unknown too, where FAILED is Failed. And while sacct has no row of the jobs that it is
# asked for, as just after sbatch, getJobStatus ends with a ValueError instead of Unknown: it splits the one empty line of
# an empty answer. sacct is a line of a shell here. Only the file is loaded that DIRAC also copies to hosts without DIRAC.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --no-deps dirac==9.1.22
mkdir bin
cat >bin/sacct <<'END'
#!/bin/sh
[ -z "$STARTED" ] || printf '11,FAILED\n12,CANCELLED by 1000\n13,OUT_OF_MEMORY\n'
END
chmod +x bin/sacct
cat >ask.py <<'END'
import glob, importlib.util, os

spec = importlib.util.spec_from_file_location("SLURM", glob.glob("venv/lib/python3*/site-packages/DIRAC/Resources/Computing/BatchSystems/SLURM.py")[0])
dirac = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dirac)
for os.environ["STARTED"] in "1", "":
    try:
        print("DIRAC 9.1.22:", dirac.SLURM().getJobStatus(JobIDList=["11", "12", "13"])["Jobs"])
    except ValueError as error:
        print(f"DIRAC 9.1.22: ValueError: {error}")
END
PATH=$work/bin:$PATH timeout 60 venv/bin/python ask.py | tee said
cat >expected <<'END'
DIRAC 9.1.22: {'11': 'Failed', '12': 'Unknown', '13': 'Unknown'}
DIRAC 9.1.22: ValueError: not enough values to unpack (expected 2, got 1)
END
cmp -s said expected || { echo "this has changed"; exit 1; }
