"""mpi-pytest: tests for two ranks, by a pytest that mpiexec starts; one that fails on one rank fails."""

import os
import pathlib
import subprocess
import sys

from launched import launched

TESTS = """
import pytest
from mpi4py import MPI

@pytest.mark.parallel(2)
def test_sum():
    assert MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank) == 1

@pytest.mark.parallel(2)
def test_of_one_rank():
    assert MPI.COMM_WORLD.rank == 0
"""


def main():
    pathlib.Path("test_two.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-m", "parallel[2]", "test_two.py"]
    assert "1 passed" in launched("-n 2", *words, "-k", "sum")
    ran = subprocess.run([os.environ["MPIEXEC"], "-n", "2", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert ran.returncode != 0 and "1 failed" in ran.stdout, ran.stdout + ran.stderr


if __name__ == "__main__":
    main()
