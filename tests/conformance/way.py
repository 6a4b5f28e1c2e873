"""Where the ranks of MPICH's tests are, and how long a test may take: the beginning of a command of mpiexec by CONFORMANCE_WAY.

node     all on this node, on all of its cores (the default)
nodes    on two virtual nodes, which reach each other over UDP
crowded  all ranks of a test on one core: two tests at once, of 4 ranks for the most part, are 4 ranks per core
"""
import itertools, os, sys

WAYS = ("node", "nodes", "crowded")
# Of a test, if its line asks for no more; on a busy machine CONFORMANCE_LIMIT_S gives more.
LIMIT_S = int(os.environ.get("CONFORMANCE_LIMIT_S") or 90)
WAY = os.environ.get("CONFORMANCE_WAY") or "node"
if WAY not in WAYS:
    sys.exit(f"CONFORMANCE_WAY is \"{WAY}\", expected {', '.join(WAYS)}")
CORES = itertools.cycle(sorted(os.sched_getaffinity(0)))


def launcher(dist, ranks):
    """The command up to the options of mpiexec that the test asks for."""
    mpiexec = str(dist / "bin" / "mpiexec")
    if WAY == "crowded":
        return ["taskset", "-c", str(next(CORES)), mpiexec]
    if WAY == "nodes" and ranks > 1:
        return [mpiexec, "--virtual-nodes", "2"]
    return [mpiexec]
