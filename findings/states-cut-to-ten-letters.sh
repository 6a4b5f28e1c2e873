#!/bin/bash
# sacct's column State is 10 letters wide unless its format says more, and a + is in the place of what is cut (sacct(1)): a job that
# ran out of memory is OUT_OF_ME+, one that eva cancelled is CANCELLED+ for "CANCELLED by 1000". b2luigi 1.3.0 and
# maestrowf 1.2.1 read that column, with tables of the whole words. b2luigi takes the + away and ends with a ValueError for
# OUT_OF_ME, while it knows OUT_OF_MEMORY, a failure. maestrowf has CANCELLED for a job that squeue still shows and UNKNOWN
# for the same job when only sacct does, and counts it as failed. sacct and squeue are lines of a shell here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check b2luigi==1.3.0 luigi==3.7.3 tenacity==8.5.0 \
    cachetools==8.0.2 maestrowf==1.2.1 jsonschema==4.26.0 coloredlogs==15.0.1 dill==0.4.1 filelock==4.3.1 rich==15.0.0 \
    tabulate==0.10.0
mkdir bin
cat >bin/sacct <<'END'
#!/bin/sh
case "$*" in
"") ;;
*-X*) echo "12           OUT_OF_ME+ " ;;
*)
    echo "JobID           JobName      State ExitCode "
    echo "------------ ---------- ---------- -------- "
    echo "13                 step CANCELLED+      0:0 "
    echo "13.batch          batch  CANCELLED     0:15 " ;;
esac
END
cat >bin/squeue <<'END'
#!/bin/sh
[ -z "$IN_QUEUE" ] || printf '             JOBID     NAME     USER ST\n                13     step      eva CA\n'
END
chmod +x bin/*
cat >ask.py <<'END'
import os
from b2luigi.batch.processes.slurm import SlurmJobStatusCache
from maestrowf.interfaces.script.slurmscriptadapter import SlurmScriptAdapter

try:
    print("b2luigi 1.3.0:", SlurmJobStatusCache()[12])
except ValueError as error:
    print(f"b2luigi 1.3.0: ValueError: {error}")
maestro = SlurmScriptAdapter(host="h", bank="b", queue="q", nodes="1")
for os.environ["IN_QUEUE"] in "1", "":
    state = maestro.check_jobs(["13"])[1]["13"].name
    print(f"maestrowf 1.2.1, by {'squeue' if os.environ['IN_QUEUE'] else 'sacct'}: {state}")
END
IN_QUEUE= PATH=$work/bin:$PATH USER=eva timeout 120 venv/bin/python ask.py | tee said
cat >expected <<'END'
b2luigi 1.3.0: ValueError: 'OUT_OF_ME' is not a valid SlurmJobStatus
maestrowf 1.2.1, by squeue: CANCELLED
maestrowf 1.2.1, by sacct: UNKNOWN
END
cmp -s said expected || { echo "this has changed"; exit 1; }
