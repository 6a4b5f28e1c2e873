"""pysqa: its own template, a dependency, the list as a table, a job that is deleted."""

import os
import time

from pysqa import QueueAdapter

adapter = QueueAdapter(queue_type="SLURM")


def submit(name, command, **more):
    folder = os.path.abspath(name)
    os.makedirs(folder)
    return adapter.submit_job(job_name=name, working_directory=folder, cores=1, run_time_max=300, partition="tutti", command=command, **more)


def await_that(what, is_so):
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.2)


first = submit("first", "while [ ! -e go ]; do sleep 0.1; done; echo first > out")
second = submit("second", "cat ../first/out > out", dependency_list=[str(first)])
assert isinstance(first, int) and isinstance(second, int), (first, second)
await_that("the first one runs", lambda: adapter.get_status_of_job(process_id=first) == "running")
assert adapter.get_status_of_job(process_id=second) == "pending"
table = adapter.get_queue_status()
assert set(table["jobid"]) == {first, second} and set(table["working_directory"]) == {os.path.abspath("first"), os.path.abspath("second")}, table
open("first/go", "w").close()
await_that("both are over", lambda: adapter.get_status_of_job(process_id=second) is None)
with open("second/out") as output:
    assert output.read() == "first\n"
third = submit("third", "sleep 1000")
await_that("the third one runs", lambda: adapter.get_status_of_job(process_id=third) == "running")
adapter.delete_job(process_id=third)
await_that("it is gone", lambda: adapter.get_status_of_job(process_id=third) is None)
