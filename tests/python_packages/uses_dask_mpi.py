"""dask-mpi: rank 0 is the scheduler, rank 1 the client, the others are workers."""

from launched import are_ranks, python


def rank():
    from dask_mpi import initialize

    initialize(nthreads=1, dashboard=False)
    from distributed import Client

    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        print(len(client.scheduler_info()["workers"]), sum(client.gather(client.map(lambda x: x * x, range(20)))))


def main():
    for place in ["-n 4", "-n 4 --virtual-nodes 2"]:
        said = python(place)
        assert said == "2 2470\n", said


if __name__ == "__main__":
    rank() if are_ranks() else main()
