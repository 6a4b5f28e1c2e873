"""What the programs of this folder have in common: one starts its ranks, on one node and on two virtual nodes."""

import os
import subprocess
import sys

# Options of mpiexec for each run: the last is on two nodes.
PLACES = ["-n 1", "-n 2", "-n 4", "-n 4 --virtual-nodes 2"]
LIMIT_S = 120


def launched(options, *words):
    """What a command prints under mpiexec (variable MPIEXEC); it must end well, and within its limit."""
    command = [os.environ["MPIEXEC"], *options.split(), *words]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, f"{command} ended with {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def python(options, *words):
    """The same of this program, as ranks."""
    return launched(options, sys.executable, "-B", sys.argv[0], "rank", *words)


def are_ranks():
    """Whether this process is one of the ranks."""
    return sys.argv[1:2] == ["rank"]
