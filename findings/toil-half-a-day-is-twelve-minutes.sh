#!/bin/bash
# toil 9.6.0 takes the time limit out of the user's arguments for sbatch (TOIL_SLURM_ARGS="--time=0-12:00") and writes one of
# its own, in seconds, instead. Its parser names the six forms of sbatch(1), among them "days-hours" and "days-hours:minutes",
# and then forgets that there was a dash when the number before it is 0: 0-12 and 0-12:00, half a day, become 720 s, and Slurm
# ends the job after twelve minutes. 1-12:00 and 0-12:00:00 are right. --slurmTime has the same parser. Of toil only the
# function is run, and the line that it is for is looked at: the rest needs much more.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --no-deps toil==9.6.0
cat >ask.py <<'END'
import ast, glob

text = open(glob.glob("venv/lib/python3*/site-packages/toil/batchSystems/slurm.py")[0]).read()
function = next(node for node in ast.parse(text).body if getattr(node, "name", "") == "parse_slurm_time")
names = {}
exec(compile(ast.Module([function], []), "slurm.py", "exec"), names)
for limit in "1-12:00", "0-12:00:00", "0-12:00", "0-12":
    print(f"--time={limit}: --time=0:{names['parse_slurm_time'](limit)}")
print("toil has", *{line.strip() for line in text.splitlines() if "--time=" in line and "append" in line})
END
timeout 60 venv/bin/python ask.py | tee said
cat >expected <<'END'
--time=1-12:00: --time=0:129600
--time=0-12:00:00: --time=0:43200
--time=0-12:00: --time=0:720
--time=0-12: --time=0:720
toil has sbatch_line.append(f"--time=0:{time_limit}")
END
cmp -s said expected || { echo "this has changed"; exit 1; }
