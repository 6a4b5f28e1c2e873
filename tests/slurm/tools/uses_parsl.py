"""parsl: its provider submits, asks and cancels."""

import os
import time

from parsl.jobs.states import JobState
from parsl.providers import SlurmProvider

provider = SlurmProvider(walltime="00:05:00")
provider.script_dir = os.path.abspath("scripts")
os.makedirs(provider.script_dir)
failing = provider.submit("exit 4", 1)
running = provider.submit("sleep 1000", 1)
well = provider.submit("true", 1)


# The provider asks no more for a job that it has seen over, and then takes it for one that has ended well:
# the first end counts.
ends = {}


def states():
    for job, status in zip([failing, running, well], provider.status([failing, running, well])):
        if status.terminal:
            ends.setdefault(job, status.state)
    return [ends.get(job, JobState.RUNNING) for job in [failing, running, well]]


def await_states(expected):
    until = time.monotonic() + 60
    while states() != expected:
        assert time.monotonic() < until, states()
        time.sleep(0.5)


await_states([JobState.FAILED, JobState.RUNNING, JobState.COMPLETED])
assert provider.cancel([running]) == [True]
await_states([JobState.FAILED, JobState.CANCELLED, JobState.COMPLETED])
