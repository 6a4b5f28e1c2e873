"""dpdispatcher: tasks in scripts of its own making, as jobs and as an array, one that fails until it is tried again."""

import os
from pathlib import Path

from dpdispatcher import Machine, Resources, Submission, Task


def tasks(folder, command):
    made = []
    for number in range(4):
        place = Path("work") / folder / f"task{number}"
        place.mkdir(parents=True)
        (place / "in").write_text(f"{number}\n")
        made.append(Task(command=command, task_work_path=f"{folder}/task{number}", forward_files=["in"], backward_files=["out", "log"]))
    return made


def run(batch_type, folder, command, group_size):
    machine = Machine.load_from_dict(
        {"batch_type": batch_type, "context_type": "LocalContext", "local_root": "work", "remote_root": os.path.abspath(f"remote-{folder}")}
    )
    resources = Resources.load_from_dict(
        {"number_node": 1, "cpu_per_node": 1, "gpu_per_node": 0, "queue_name": "tutti", "group_size": group_size, "custom_flags": ["#SBATCH --time=5", "#SBATCH --mem=100M"]}
    )
    Path(f"remote-{folder}").mkdir()
    submission = Submission(work_base=".", machine=machine, resources=resources, task_list=tasks(folder, command))
    submission.run_submission(check_interval=1, clean=False)
    for number in range(4):
        assert (Path("work") / folder / f"task{number}" / "out").read_text() == f"{number}\n", (folder, number)


run("Slurm", "jobs", "cat in > out", 2)
run("SlurmJobArray", "array", "cat in > out", 4)
# The first time it fails; what has ended is asked for, and submitted again.
run("Slurm", "again", "if [ -e tried ]; then cat in > out; else touch tried; exit 3; fi", 4)
