"""toil: a workflow of jobs, each of which is one of Slurm's, with what one gives to the next; and one that fails."""

import subprocess
import sys
from pathlib import Path

FLOW = '''
import sys
from toil.common import Toil
from toil.job import Job


def leaf(job, number):
    if number == 99:
        raise RuntimeError("on purpose")
    return number * number


def root(job, numbers):
    return job.addFollowOnJobFn(total, [job.addChildJobFn(leaf, number, memory="200M", cores=1).rv() for number in numbers], memory="200M").rv()


def total(job, values):
    return sum(values)


if __name__ == "__main__":
    options = Job.Runner.getDefaultArgumentParser().parse_args(sys.argv[2:])
    with Toil(options) as flow:
        print("total", flow.start(Job.wrapJobFn(root, [int(word) for word in sys.argv[1].split(",")], memory="200M")))
'''
Path("flow.py").write_text(FLOW)


def run(name, numbers):
    words = [f"file:{Path(name).resolve()}", "--batchSystem", "slurm", "--retryCount", "0", "--defaultDisk", "10M", "--maxCores", "2", "--statePollingWait", "1", "--workDir", str(Path.cwd()), "--caching", "False"]
    return subprocess.run([sys.executable, "flow.py", numbers, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=400, check=False)


ran = run("good", "1,2,3")
assert (ran.returncode, ran.stdout.strip()) == (0, "total 14"), ran.stderr[-6000:]
ran = run("bad", "1,99")
assert ran.returncode != 0 and "on purpose" in ran.stderr, ran.stderr[-6000:]
