#!/bin/bash
# abipy 1.0.0: its handler of Slurm jobs reads no job at all. get_info takes each line of `scontrol show job N --oneliner` for
# one NAME=VALUE, where the whole job is one line, and splits bytes by a text: a TypeError. get_stats does the same to what
# sacct says. estimated_start_time gives a tuple of words to shlex.split, which takes a text: an AttributeError, and squeue
# is never asked. The answers are those of Slurm to a job that runs, from lines of a shell. Only qjobs.py is loaded, with
# monty: the rest needs pymatgen.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check monty==2026.10.21 numpy==2.4.6 ruamel.yaml==0.19.1
venv/bin/pip install --quiet --disable-pip-version-check --no-deps abipy==1.0.0
mkdir bin
say() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1" && chmod +x "bin/$1"; }
say scontrol 'echo "JobId=12 JobName=r UserId=eva(1000) GroupId=eva(1000) JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n1"'
say sacct 'echo "JobID|State|ExitCode"; echo "12|RUNNING|0:0"'
cat >ask.py <<'END'
import glob, importlib.util

spec = importlib.util.spec_from_file_location("qjobs", glob.glob("venv/lib/python3*/site-packages/abipy/flowtk/qjobs.py")[0])
qjobs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(qjobs)
job = qjobs.QueueJob.from_qtype_and_id("slurm", 12)
for method in "get_info", "estimated_start_time", "get_stats":
    try:
        print(f"abipy 1.0.0, {method}:", getattr(job, method)())
    except Exception as error:
        print(f"abipy 1.0.0, {method}: {type(error).__name__}")
END
PATH=$work/bin:$PATH timeout 60 venv/bin/python ask.py | tee said
cat >expected <<'END'
abipy 1.0.0, get_info: TypeError
abipy 1.0.0, estimated_start_time: AttributeError
abipy 1.0.0, get_stats: TypeError
END
cmp -s said expected || { echo "this has changed"; exit 1; }
