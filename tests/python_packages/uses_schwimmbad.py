"""schwimmbad: a pool whose workers are the other ranks."""

import sys

from launched import are_ranks, python


def square(number):
    return number * number


def rank():
    from schwimmbad import MPIPool

    with MPIPool() as pool:
        if not pool.is_master():
            pool.wait()
            sys.exit(0)
        print(sum(pool.map(square, range(200))))


def main():
    for place in ["-n 2", "-n 4", "-n 4 --virtual-nodes 2"]:
        said = python(place)
        assert said == "2646700\n", said


if __name__ == "__main__":
    rank() if are_ranks() else main()
