#!/usr/bin/env python3
"""MPICH's tests as binaries of MPICH's own compiler wrappers, each run twice: on MPICH's library by its own launcher, and as it is on
ours by ours.

usage: both.py SUITE MPICH DIST RESULTS [FOLDER...]

MPICH is the folder with MPICH's bin and lib. The folders are those of C, or of Fortran and C++ (f77, f90, f08, cxx; f90/coll for one
of them). Prints a line for each test that did not end the same way on both, with the reason that
reasons.py knows (REASONS_OF_BINARIES), and for each folder how many passed on both, there alone, here alone, and on none. Ends with
status 1 if a test passed there and not here without a reason. What each printed is in RESULTS/theirs and RESULTS/ours.

What passes there alone runs once more on ours, when nothing else does: a test that a busy machine has stopped is no difference.
Ended by SIGTERM (timeout), it says what it has until then, and its status is 1.
"""
import concurrent.futures, os, pathlib, signal, sys

import c, fortran
from reasons import reason_of_binary
from way import launcher


class Ended(Exception):
    """SIGTERM has come."""


def end(_signal, _frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Ended


class Count:
    """The tests of a folder by where they passed."""

    def __init__(self):
        self.both = self.theirs = self.ours = self.none = 0

    def add(self, theirs, ours):
        name = {(True, True): "both", (True, False): "theirs", (False, True): "ours", (False, False): "none"}[theirs, ours]
        setattr(self, name, getattr(self, name) + 1)

    def row(self, title):
        return f"| {title} | {self.both} | {self.theirs} | {self.ours} | {self.none} |"


def main():
    source, mpich, dist, results = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
    # Its own launcher beside ours in one environment: nothing of ours reaches it.
    theirs = c.Way("theirs", lambda ranks: [str(mpich / "bin/mpiexec")])
    ours = c.Way("ours", lambda ranks: launcher(dist, ranks), ["--universe", "300"])
    folders = sys.argv[5:]
    if any(folder.split("/")[0] in [*fortran.FACES, "cxx"] for folder in folders):
        suite = fortran.Suite(source, mpich / "bin", results, [theirs, ours])
        jobs = fortran.listed(suite, folders)
    else:
        suite = c.Suite(source, mpich / "bin/mpicc", results, [theirs, ours])
        jobs = c.listed(suite, folders)
    counts, total, there_alone = {}, Count(), {}
    signal.signal(signal.SIGTERM, end)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        try:
            for job, (number, (name, line, outcomes)) in zip(jobs, enumerate(pool.map(lambda job: suite.one(*job), jobs))):
                for way, (_, said) in zip(suite.ways, outcomes):
                    c.keep(results / way.name, name, number, line, said)
                passed = [not why for why, _ in outcomes]
                if passed == [True, False]:
                    there_alone[number] = job, name, line, outcomes
                    continue
                counted(counts, total, name, line, outcomes)
            suite.ways = [ours]
            unexplained = 0
            for number, (job, name, line, outcomes) in list(there_alone.items()):
                _, _, [(why, said)] = suite.one(*job)
                c.keep(results / "ours", name, number, line, said)
                del there_alone[number]
                unexplained += counted(counts, total, name, line, [outcomes[0], (why, said)])
        except Ended:
            for _, name, line, outcomes in there_alone.values():
                counted(counts, total, name, line, outcomes)
            tested = total.both + total.theirs + total.ours + total.none
            print(f"ended by SIGTERM: {tested} of {len(jobs)} tests; what passed there alone did not run again")
            table(counts, total)
            sys.stdout.flush()
            # Not the tests that run.
            os._exit(1)
    table(counts, total)
    return 1 if unexplained else 0


def table(counts, total):
    print("\n| folder | both | MPICH's library alone | ours alone | none |\n|---|---|---|---|---|")
    for name, count in counts.items():
        print(count.row(name))
    print(total.row("all"))


def counted(counts, total, name, line, outcomes):
    """Counts a test, and says in a line where its outcomes differ. Gives whether it passed there alone, and nobody knows why."""
    (theirs, _), (ours, _) = outcomes
    for count in (counts.setdefault(os.path.dirname(name), Count()), total):
        count.add(not theirs, not ours)
    if bool(theirs) == bool(ours):
        return False
    if theirs:
        print(f"{os.path.dirname(name)}: {line}: on MPICH's library {theirs}, on ours passed", flush=True)
        return False
    why = reason_of_binary(name)
    print(f"{os.path.dirname(name)}: {line}: on ours {ours}, on MPICH's library passed ({why or 'unexplained'})", flush=True)
    return not why


if __name__ == "__main__":
    sys.exit(main())
