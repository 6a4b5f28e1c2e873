"""psij: three ends of jobs with their codes, and a job that is cancelled."""

import os

import psij
from psij.executors.batch.slurm import SlurmExecutorConfig

config = SlurmExecutorConfig(queue_polling_interval=1, initial_queue_polling_delay=1)
executor = psij.JobExecutor.get_instance("slurm", config=config)
for words, state, code in [
    (["/bin/sh", "-c", "exit 3"], psij.JobState.FAILED, 3),
    (["/bin/true"], psij.JobState.COMPLETED, 0),
]:
    job = psij.Job(psij.JobSpec(executable=words[0], arguments=words[1:]))
    executor.submit(job)
    status = job.wait()
    assert (status.state, status.exit_code) == (state, code), (words, status)
job = psij.Job(psij.JobSpec(executable="/bin/sleep", arguments=["1000"]))
executor.submit(job)
job.wait(target_states=[psij.JobState.ACTIVE])
job.cancel()
assert job.wait().state == psij.JobState.CANCELED, job.status
# Its polling thread would go on for ever.
os._exit(0)
