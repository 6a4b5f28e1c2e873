#!/bin/bash
# Slurm lists the elements of an array that wait as one line, "20_[3-9]", and each one that runs as "20_1" (squeue(1), %i). b2luigi
# 1.3.0 and myqueue 26.8.1 ask squeue for all jobs of their user and make an integer of each line's first word, so both end with
# a ValueError as soon as the user has an array in the queue, submitted by hand or by another tool: b2luigi whenever it looks for
# one of its own jobs, myqueue in each synchronisation. squeue is a line of a shell here; its rows are as Slurm 22.05 prints them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check b2luigi==1.3.0 luigi==3.7.3 tenacity==8.5.0 \
    cachetools==8.0.2 myqueue==26.8.1 networkx==3.6.1
mkdir bin
cat >bin/squeue <<'END'
#!/bin/sh
case "$*" in
*"'%i %T'"*) # b2luigi has the quotes in its format
    [ -z "$ARRAY" ] || printf "'20_[3-9] PENDING'\n'20_1 RUNNING'\n"
    echo "'12 RUNNING'" ;;
*)
    echo "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    [ -z "$ARRAY" ] || echo "          20_[3-9]      main    sweep      eva PD       0:00      1 (Resources)"
    [ -z "$ARRAY" ] || echo "              20_1      main    sweep      eva  R       0:07      1 n1"
    echo "                12      main      one      eva  R       0:07      1 n2" ;;
esac
END
chmod +x bin/squeue
cat >ask.py <<'END'
import os, pathlib
from b2luigi.batch.processes.slurm import SlurmJobStatusCache
from myqueue.config import Configuration
from myqueue.schedulers.slurm import SLURM


def answer(ask):
    try:
        return str(ask())
    except ValueError as error:
        return f"ValueError: {error}"


tools = {
    "b2luigi 1.3.0": lambda: SlurmJobStatusCache()[12],
    "myqueue 26.8.1": lambda: SLURM(Configuration("slurm", home=pathlib.Path("."))).get_ids(),
}
for array in "", "1":
    os.environ["ARRAY"] = array
    for name, ask in tools.items():
        print(f"{name}, {'with' if array else 'without'} an array: {answer(ask)}")
END
PATH=$work/bin:$PATH USER=eva timeout 120 venv/bin/python ask.py | tee said
cat >expected <<'END'
b2luigi 1.3.0, without an array: RUNNING
myqueue 26.8.1, without an array: {12}
b2luigi 1.3.0, with an array: ValueError: invalid literal for int() with base 10: '20_[3-9]'
myqueue 26.8.1, with an array: ValueError: invalid literal for int() with base 10: '20_[3-9]'
END
cmp -s said expected || { echo "this has changed"; exit 1; }
