#!/bin/bash
# jobscope 0.1.1: a job whose name has a bar (`sbatch --job-name='a|b'`) loses its nodes, its run time and all its
# efficiencies. It asks sacct -P for JobID, State, JobName, ... AdminComment and splits each line at the first eleven bars,
# which is safe for a bar in the last column alone. The name is the third of them, and sacct -P prints a bar in it as it is
# (man sacct, -P: "output will be '|' delimited without a '|' at the end"; --delimiter chooses another one). Everything
# behind the name is one column late, and the AdminComment, which begins with "node1|" now, cannot be read. Nothing is said.
# The commands of Slurm are lines of a shell here; both jobs are the same but for their names.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check jobscope==0.1.1 requests==2.34.2 rich==15.0.0 plotext==6.1.0
mkdir bin
# What jobstats puts into AdminComment: half of the time of four cores, for 1000 s.
blob=$(venv/bin/python - <<'END'
import base64, gzip, json
node = {"total_time": 2000.0, "cpus": 4, "used_memory": 1 << 30, "total_memory": 4 << 30}
text = json.dumps({"nodes": {"n1": node}, "total_time": 1000, "gpus": False})
print("JS1:" + base64.b64encode(gzip.compress(text.encode())).decode())
END
)
cat >bin/sacct <<END
#!/bin/sh
case "\$*" in
*AdminComment*)
    row() { echo "\$1|COMPLETED|\$2|00:16:40|2|billing=8,cpu=4,gres/gpu=2,mem=4G,node=2|2026-11-01T10:00:00|2026-11-01T10:16:40|\$1|main|eva|$blob"; }
    row 7 a-b
    row 8 'a|b' ;;
*) printf '7|COMPLETED\n8|COMPLETED\n' ;;
esac
END
chmod +x bin/sacct
export PATH=$work/bin:$PATH HOME=$work USER=eva
venv/bin/jobscope summary --cpu --csv 7 8 >table 2>said || { cat table said; exit 1; }
echo "jobscope 0.1.1, two jobs that differ in their names alone:"
cat table
venv/bin/python - <<'END'
import csv
lines = open("table").read().splitlines()
head = next(at for at, line in enumerate(lines) if line.startswith("JOBID"))
rows = {row["JOBID"]: row for row in csv.DictReader(lines[head:])}
seen = {job: [rows[job][column] for column in ("NODES", "CPU%", "MEM%", "RUNTIME", "NAME")] for job in ("7", "8")}
assert seen == {"7": ["2", "50", "25", "00:16:40", "a-b"], "8": ["00:16:40", "-", "-", "b", "a"]}, seen
END
