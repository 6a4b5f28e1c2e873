"""One rank of mpi4py's own test suite; see suite.py.

    rank.py TESTS NOTES DONE...

The workers that a pool starts run its program too, under another name, to know what it defines: nothing here.
"""

if __name__ == "__main__":
    import suite  # noqa: F401
