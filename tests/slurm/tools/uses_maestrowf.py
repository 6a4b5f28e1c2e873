"""maestrowf: a study of three steps, of which one fails, with its conductor in the foreground."""

import subprocess
import sys
from pathlib import Path

MAESTRO = str(Path(sys.executable).parent / "maestro")
STUDY = """
description: {name: study, description: three steps}
batch: {type: slurm, host: here, bank: ours, queue: tutti}
study:
    - name: first
      description: writes what the next one reads
      run: {cmd: "$(LAUNCHER) sh -c 'echo task $SLURM_PROCID >>$(WORKSPACE)/text$SLURM_PROCID'", nodes: 2, procs: 2, walltime: "00:05:00"}
    - name: second
      description: reads it
      run: {cmd: "cat $(first.workspace)/text* >read", depends: [first], nodes: 1, procs: 1, walltime: "00:05:00"}
    - name: third
      description: fails
      run: {cmd: "exit 3", nodes: 1, procs: 1, walltime: "00:05:00"}
"""
Path("study.yaml").write_text(STUDY)
ran = subprocess.run([MAESTRO, "run", "-y", "-fg", "-s", "1", "-o", "out", "study.yaml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
out = Path("out")
assert (out / "second/read").read_text() == "task 0\ntask 1\n", ran
rows = [row.split(",") for row in (out / "status.csv").read_text().splitlines()]
states = dict(zip([row[rows[0].index("Step Name")] for row in rows[1:]], [row[rows[0].index("State")] for row in rows[1:]]))
assert states == {"first": "FINISHED", "second": "FINISHED", "third": "FAILED"}, (states, ran.stdout)
