"""submitit: a job, an array with an exception in it, a job that is cancelled, tasks of one job on two nodes."""

import os
import time

import submitit


def square(number):
    if number == 1:
        raise ValueError("one is refused")
    return number * number, os.environ.get("SLURM_ARRAY_TASK_ID"), os.environ["SLURM_JOB_ID"]


def place():
    environment = submitit.JobEnvironment()
    return environment.global_rank, environment.num_tasks, environment.node, environment.num_nodes


def await_state(job, begin):
    until = time.monotonic() + 60
    while not (state := job.watcher.get_state(job.job_id, mode="force")).startswith(begin):
        assert time.monotonic() < until, f"{job.job_id} is {state}, not {begin}"
        time.sleep(0.2)


def main():
    executor = submitit.SlurmExecutor(folder="log")
    executor.update_parameters(time=5, array_parallelism=2)
    job = executor.submit(square, 0)
    assert job.result() == (0, None, job.job_id), job.result()
    await_state(job, "COMPLETED")

    jobs = executor.map_array(square, [0, 1, 2, 3])
    assert [job.job_id.split("_")[1] for job in jobs] == ["0", "1", "2", "3"], jobs
    for index, job in enumerate(jobs):
        if index == 1:
            assert "one is refused" in str(job.exception()), job.exception()
        else:
            number, task, _ = job.result()
            assert (number, task) == (index * index, str(index)), job.result()

    job = executor.submit(time.sleep, 1000)
    await_state(job, "RUNNING")
    job.cancel()
    try:
        job.result()
        raise AssertionError("a cancelled job has no result")
    except submitit.core.utils.UncompletedJobError:
        await_state(job, "CANCELLED")

    executor.update_parameters(nodes=2, ntasks_per_node=2)
    ranks = executor.submit(place).results()
    assert ranks == [(0, 4, 0, 2), (1, 4, 0, 2), (2, 4, 1, 2), (3, 4, 1, 2)], ranks


if __name__ == "__main__":
    main()
