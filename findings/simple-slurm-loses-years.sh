#!/bin/bash
# simple_slurm 0.3.6 writes a datetime.timedelta as the time limit of a job, in days, hours, minutes and seconds. It takes
# whole years out of the days first, and there is no place for years in what it writes: 400 days are 35-00:00:00. A year is
# 0-00:00:00, which is a limit of another kind: "A time limit of zero requests that no time limit be imposed" (sbatch(1)). A
# limit that ends before the job does ends it. 364 days are right. Only the script is made here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check simple-slurm==0.3.6
cat >limit.py <<'END'
from datetime import timedelta
from simple_slurm import Slurm

for days in 1, 364, 365, 400:
    limit = next(line for line in str(Slurm(time=timedelta(days=days))).splitlines() if "--time" in line)
    print(f"{days} days:", " ".join(limit.split()))
END
timeout 60 venv/bin/python limit.py | tee said
cat >expected <<'END'
1 days: #SBATCH --time 1-00:00:00
364 days: #SBATCH --time 364-00:00:00
365 days: #SBATCH --time 0-00:00:00
400 days: #SBATCH --time 35-00:00:00
END
cmp -s said expected || { echo "this has changed"; exit 1; }
