"""snakemake with its plugin for Slurm: 20 rules of which one fails, an array, rules of an account and of several tasks."""

import os
import subprocess
import sys
from pathlib import Path

RULES = 20
WRONG = 7


def rule(number, more=""):
    name = f"r{number}"
    inputs = [f"o{first}.txt" for first in (1, 2)] if number == RULES else []
    ends = "exit 9" if number == WRONG else "true"
    return f"""
rule {name}:
    input: {", ".join(repr(name) for name in inputs)}
    output: "o{number}.txt"
    resources: mem_mb=400, runtime=5{more}
    shell: "echo rule {number} > {{output}}; {ends}"
"""


def snakemake(*words, status):
    command = [str(Path(sys.executable).parent / "snakemake"), "--executor", "slurm", "--jobs", "6", "--latency-wait", "30"]
    # What the plugin asks for otherwise is a pause of 40 s before it looks for the first time.
    command += ["--slurm-init-seconds-before-status-checks", "1", "--slurm-logdir", os.path.abspath("logs"), *words]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert ran.returncode == status, ran.stdout
    return ran.stdout


def in_folder(name, text):
    folder = Path(name)
    folder.mkdir()
    os.chdir(folder)
    Path("Snakefile").write_text(text)


home = Path.cwd()
wanted = ", ".join(f'"o{number}.txt"' for number in range(1, RULES + 1))
in_folder("rules", f"rule all:\n    input: {wanted}\n" + "".join(rule(number) for number in range(1, RULES + 1)))
said = snakemake("--keep-going", status=1)
made = {path.name for path in Path().glob("o*.txt")}
assert made == {f"o{number}.txt" for number in range(1, RULES + 1) if number != WRONG}, (made, said)
assert said.count("SLURM status is: 'FAILED'") == 1 and f"r{WRONG}" in said, said

# All jobs of a rule as one array; an account that its check of accounts knows nothing of.
os.chdir(home)
in_folder(
    "array",
    """
rule all:
    input: expand("a{i}.txt", i=range(5)), "mpi.txt"

rule each:
    output: "a{i}.txt"
    resources: mem_mb=400, runtime=5, slurm_account="project"
    shell: "echo $SLURM_ARRAY_TASK_ID > {output}"

rule tasks:
    output: "mpi.txt"
    resources: mem_mb=400, runtime=5, tasks=3, mpi="srun"
    shell: "{resources.mpi} -n {resources.tasks} sh -c 'echo $SLURM_PROCID' | sort > {output}"
""",
)
said = snakemake("--slurm-array-jobs", "each", status=0)
tasks = sorted(int(Path(f"a{i}.txt").read_text()) for i in range(5))
assert tasks == [1, 2, 3, 4, 5], (tasks, said)
assert Path("mpi.txt").read_text() == "0\n1\n2\n", said

# Ctrl-C cancels what runs.
os.chdir(home)
in_folder("cancel", 'rule a:\n    output: "o.txt"\n    resources: mem_mb=400, runtime=5\n    shell: "sleep 1000; echo > {output}"\n')
command = [str(Path(sys.executable).parent / "snakemake"), "--executor", "slurm", "--jobs", "1"]
running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
while not subprocess.run(["squeue", "-h", "-t", "RUNNING"], check=True, capture_output=True).stdout:
    assert running.poll() is None, running.communicate()
running.send_signal(2)
said, _ = running.communicate(timeout=60)
assert running.returncode == 1, said
assert not subprocess.run(["squeue", "-h", "-t", "PENDING,RUNNING"], check=True, capture_output=True).stdout, said
