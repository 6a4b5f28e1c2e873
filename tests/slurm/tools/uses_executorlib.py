"""executorlib: functions by srun inside of an allocation."""

import os
import subprocess
import sys

if "inside" not in sys.argv:
    ran = subprocess.run(["salloc", "-n", "2", sys.executable, "-B", os.path.abspath(__file__), "inside"], check=False)
    sys.exit(ran.returncode)

from executorlib import SlurmJobExecutor


def add(one, other):
    return one + other


if __name__ == "__main__":
    with SlurmJobExecutor(max_workers=2) as executor:
        futures = [executor.submit(add, number, 1) for number in range(3)]
        assert [future.result(timeout=120) for future in futures] == [1, 2, 3]
