"""aiida: its SlurmScheduler submits, lists, asks for details and kills, by its own transport on this machine."""

import os
import time

# Its configuration is the test's own.
os.environ["AIIDA_PATH"] = os.getcwd()

from aiida.common.datastructures import CodeRunMode
from aiida.schedulers.datastructures import JobState, JobTemplate, JobTemplateCodeInfo
from aiida.schedulers.plugins.slurm import SlurmJobResource, SlurmScheduler
from aiida.transports.plugins.local import LocalTransport


def template(name, *words):
    template = JobTemplate()
    template.job_name = name
    template.shebang = "#!/bin/bash"
    template.submit_as_hold = name == "held"
    template.rerunnable = False
    template.job_resource = SlurmJobResource(num_machines=1, num_mpiprocs_per_machine=1)
    template.max_wallclock_seconds = 300
    template.max_memory_kb = 100_000
    template.sched_output_path, template.sched_error_path = f"{name}.out", f"{name}.err"
    code = JobTemplateCodeInfo()
    code.cmdline_params, code.prepend_cmdline_params = list(words), []
    code.use_double_quotes = [False, False]
    template.codes_info, template.codes_run_mode = [code], CodeRunMode.SERIAL
    return template


# Slurm's commands are on this PATH, which a login would set anew.
with LocalTransport(use_login_shell=False) as transport:
    scheduler = SlurmScheduler()
    scheduler.set_transport(transport)

    def submit(name, *words):
        with open(f"{name}.sh", "w") as script:
            script.write(scheduler.get_submit_script(template(name, *words)))
        job = scheduler.submit_job(os.getcwd(), f"{name}.sh")
        assert isinstance(job, str) and job.isdigit(), job
        return job

    def await_state(job, *wanted):
        until = time.monotonic() + 60
        while True:
            found = scheduler.get_jobs(jobs=[job], as_dict=True)
            state = found[job].job_state if job in found else JobState.DONE
            if state in wanted:
                return found.get(job)
            assert time.monotonic() < until, (job, state, wanted)
            time.sleep(0.3)

    well, failing, running = submit("well", "echo", "here"), submit("failing", "false"), submit("running", "sleep", "1000")
    held = submit("held", "true")
    await_state(well, JobState.DONE)
    await_state(failing, JobState.DONE)
    row = await_state(running, JobState.RUNNING)
    assert (row.title, row.num_machines, row.requested_wallclock_time_seconds) == ("running", 1, 300), row
    assert row.job_owner and row.allocated_machines_raw and row.submission_time, row
    await_state(held, JobState.QUEUED_HELD)
    listed = scheduler.get_jobs(user=row.job_owner, as_dict=True)
    assert {running, held} <= set(listed), listed

    until = time.monotonic() + 60
    while True:
        details = scheduler.get_detailed_job_info(failing)
        assert details["retval"] == 0, details
        names, *rows = [line.split("|") for line in details["stdout"].splitlines()]
        record = dict(zip(names, rows[0])) if rows else {}
        if record.get("State") == "FAILED":
            break
        assert time.monotonic() < until, details
        time.sleep(0.3)
    assert (record["JobID"], record["ExitCode"]) == (failing, "1:0"), record
    with open("well.out") as output:
        assert output.read() == "here\n"
    with open("failing.out") as output, open("failing.err") as errors:
        assert scheduler.parse_output(details, output.read(), errors.read()) is None

    assert scheduler.kill_job(running) and scheduler.kill_job(held)
    await_state(running, JobState.DONE)
    await_state(held, JobState.DONE)
