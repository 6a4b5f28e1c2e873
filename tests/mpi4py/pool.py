"""A pool of mpi4py.futures whose workers are the other ranks, so that no process is started; see run.py.

    mpiexec -n N python -m mpi4py.futures pool.py

Rank 0 runs this, all others take what it hands out.
"""

from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

NUMBERS = range(1000)


def square(number):
    return number * number, MPI.COMM_WORLD.Get_rank()


def fail(number):
    raise ValueError(number)


if __name__ == "__main__":
    size = MPI.COMM_WORLD.Get_size()
    with MPIPoolExecutor() as pool:
        assert pool.num_workers == size - 1, pool.num_workers
        results = list(pool.map(square, NUMBERS, chunksize=7))
        error = pool.submit(fail, 7).exception()
    assert [result for result, _ in results] == [number * number for number in NUMBERS]
    workers = {rank for _, rank in results}
    assert workers <= set(range(1, size)), workers
    assert isinstance(error, ValueError) and error.args == (7,), repr(error)
    print("pool is right")
