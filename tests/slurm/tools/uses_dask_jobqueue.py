"""dask-jobqueue: workers are jobs, up to four and back."""

import subprocess
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def main():
    cluster = SLURMCluster(cores=1, memory="300MB", walltime="00:05:00", log_directory="log", interface="lo", death_timeout=120)
    cluster.scale(jobs=4)
    client = Client(cluster)
    client.wait_for_workers(4, timeout=120)
    assert sorted(client.gather(client.map(lambda x: x + 1, range(8)))) == list(range(1, 9))
    cluster.scale(0)
    until = time.monotonic() + 60
    while subprocess.run(["squeue", "-h"], check=True, capture_output=True).stdout:
        assert time.monotonic() < until, "its jobs are over"
        time.sleep(0.2)
    client.close()
    cluster.close()


if __name__ == "__main__":
    main()
