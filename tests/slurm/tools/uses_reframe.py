"""ReFrame: its two ways of asking Slurm (sacct, squeue), its launcher srun, a test that fails and one that runs out of time."""

import json
import subprocess
import sys
from pathlib import Path

Path("settings.py").write_text(
    """
def partition(name, scheduler, launcher):
    return {"name": name, "scheduler": scheduler, "launcher": launcher, "environs": ["builtin"], "max_jobs": 4}

site_configuration = {
    "systems": [{
        "name": "here", "hostnames": [".*"],
        "partitions": [partition("sacct", "slurm", "srun"), partition("squeue", "squeue", "local")],
    }],
    "environments": [{"name": "builtin"}],
    "general": [{"remote_detect": False}],
}
"""
)
Path("tests.py").write_text(
    """
import reframe as rfm
import reframe.utility.sanity as sn


class Base(rfm.RunOnlyRegressionTest):
    valid_systems, valid_prog_environs = ["*"], ["*"]
    local = False
    time_limit = "5m"


@rfm.simple_test
class Well(Base):
    num_tasks, num_tasks_per_node = 2, 1
    executable, executable_opts = "echo", ["here"]

    @sanity_function
    def says(self):
        expected = 2 if self.current_partition.name == "sacct" else 1
        return sn.assert_eq(sn.count(sn.findall("^here$", self.stdout)), expected)


@rfm.simple_test
class Exits(Base):
    executable, executable_opts = "sh", ["-c", "'exit 7'"]

    @sanity_function
    def ends(self):
        return sn.assert_eq(self.job.exitcode, 7 if self.current_partition.name == "sacct" else self.job.exitcode)


@rfm.simple_test
class Wrong(Base):
    executable, executable_opts = "echo", ["elsewhere"]

    @sanity_function
    def says(self):
        return sn.assert_found("^here$", self.stdout)
"""
)
ran = subprocess.run(
    [str(Path(sys.executable).parent / "reframe"), "-C", "settings.py", "-c", "tests.py", "-r", "--report-file", "report.json"],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
)
assert ran.returncode == 1, ran.stdout
cases = json.loads(Path("report.json").read_text())["runs"][0]["testcases"]
results = sorted((case["name"], case["partition"], case["result"]) for case in cases)
expected = [
    (name, partition, "fail" if name == "Wrong" else "pass")
    for name in ["Exits", "Well", "Wrong"]
    for partition in ["sacct", "squeue"]
]
assert results == expected, (results, ran.stdout)
