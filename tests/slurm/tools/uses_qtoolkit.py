"""qtoolkit (of jobflow-remote): a script of its own making is submitted, listed, asked for and cancelled."""

import os
import time

from qtoolkit import QResources
from qtoolkit.core.data_objects import CancelStatus, QState, SubmissionStatus
from qtoolkit.io.slurm import SlurmIO
from qtoolkit.manager import QueueManager

manager = QueueManager(SlurmIO())


def submit(name, command, **more):
    resources = QResources(job_name=name, nodes=1, processes_per_node=2, time_limit=300, memory_per_thread=20, output_filepath=f"{name}.out", error_filepath=f"{name}.err", **more)
    result = manager.submit(commands=command, options=resources, work_dir=os.getcwd(), script_fname=f"{name}.sh", create_submit_dir=False)
    assert result.status == SubmissionStatus.SUCCESSFUL, result
    return result.job_id


def await_state(job, *wanted):
    until = time.monotonic() + 60
    while (found := manager.get_job(job)) is None or found.state not in wanted:
        assert time.monotonic() < until, (job, found, wanted)
        time.sleep(0.3)
    return found


well, failing, running = submit("well", "echo here"), submit("failing", "exit 3"), submit("running", "sleep 1000")
assert await_state(well, QState.DONE).name == "well"
await_state(failing, QState.FAILED)
found = await_state(running, QState.RUNNING)
assert (found.info.nodes, found.info.cpus, found.info.time_limit, found.queue_name) == (1, 2, 300, "tutti"), found
listed = {job.job_id: job for job in manager.get_jobs_list(jobs=[running])}
assert listed[running].state == QState.RUNNING and listed[running].name == "running", listed
cancelled = manager.cancel(running)
assert cancelled.status == CancelStatus.SUCCESSFUL and cancelled.job_id == running, cancelled
await_state(running, QState.FAILED)
with open("well.out") as output:
    assert output.read() == "here\n"
