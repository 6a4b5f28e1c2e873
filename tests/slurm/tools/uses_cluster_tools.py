"""cluster_tools: arrays of functions, one that raises, one that dies, one over its limit, and an end of all by a signal."""

import os
import signal
import subprocess
import time

import cluster_tools
from cluster_tools.schedulers.cluster_executor import RemoteException, RemoteTimeLimitException


def await_that(what, is_so):
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.2)


def square(number):
    return number * number, os.environ["SLURM_ARRAY_TASK_ID"]


def raises(number):
    raise ValueError(f"{number} is no number")


def dies(_):
    os.kill(os.getpid(), signal.SIGKILL)


def waits(_):
    time.sleep(1000)


def executor(**resources):
    return cluster_tools.get_executor("slurm", debug=False, keep_logs=True, job_resources=resources, job_name="tool")


def is_listed(*states):
    return subprocess.run(["squeue", "-h", "-t", ",".join(states)], check=True, capture_output=True).stdout != b""


if __name__ == "__main__":
    # Jobs load the functions from here.
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    with executor(mem="200M") as pool:
        assert pool.get_max_array_size() == 1001
        assert list(pool.map(square, range(5))) == [(number * number, str(number)) for number in range(5)]
        [failing] = pool.map_to_futures(raises, [3])
        assert "3 is no number" in str(failing.exception(timeout=60)), failing
        [dying] = pool.map_to_futures(dies, [0])
        error = dying.exception(timeout=60)
        assert type(error) is RemoteException, repr(error)
    with executor(mem="200M", time="0:02") as pool:
        [long] = pool.map_to_futures(waits, [0])
        error = long.exception(timeout=120)
        assert isinstance(error, RemoteTimeLimitException) and "Time Limit: 00:00:02" in str(error), repr(error)
    # What an interrupt does to all jobs: those that wait are cancelled, the others get the signal, then their end.
    pool = executor(mem="200M")
    running = pool.map_to_futures(waits, range(3))
    await_that("they run", lambda: is_listed("RUNNING"))
    assert pool.get_number_of_submitted_jobs() == 3
    pool.handle_kill()
    await_that("they are over", lambda: not is_listed("PENDING", "RUNNING"))
