"""mpi4py's own test suite under our mpiexec: counts for each number of ranks, and what failed. Before it a pool of mpi4py.futures without
spawn, on two ranks and more (pool.py).

    run.py PYTHON TESTS MPIEXEC FUNCTIONS SCRATCH NETWORK [RANKS...]

NETWORK is how the ranks reach each other: node (all on this node), udp (each is a node), netns (two nodes that are network namespaces),
cluster2 and cluster4 (on the nodes of a cluster of so many daemons, which is started and ended). MPI4PY_SWITCH=MS switches the jobs of
a cluster off and on every so many milliseconds. open-mpi: on this node, and MPIEXEC is Open MPI's. MPI4PY_LEAVE_OUT: patterns of names
of tests that are not run, with blanks between them (*test_rma*).

All tests must pass, or be skipped by the suite itself, but those that need a chapter of the standard that is not written: they must
meet its error, MPI_ERR_UNSUPPORTED_OPERATION raised by a function of that chapter, on at least one rank. Which functions these are
is read from the table of functions (FUNCTIONS). A crash or a test over its limit fails, with its name; the suite then goes on
behind it in a new job. Ends with status 1 if anything failed.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

# The chapters that this version does not have.
UNWRITTEN_CHAPTERS = ()
# A rank, or a thread, that met the error of an unwritten function leaves the others alone in the test; when nothing has happened for
# this long, the test is over.
LEFT_ALONE_S = 1
# Nothing takes a tenth of it on a free machine; on a busy one MPI4PY_LIMIT_S gives more.
TEST_LIMIT_S = int(os.environ.get("MPI4PY_LIMIT_S") or 120)
JOBS_MAX = 100
# NETWORK: what it says in a line of counts, options of mpiexec, its environment, the daemons of its cluster.
NETWORKS = {
    "node": ("", ["--universe", "512"], {}, 0),
    "udp": (" over UDP", ["--universe", "512"], {"TUTTI_TRANSPORT": "udp"}, 0),
    "netns": (" in two network namespaces", ["--netns", "2", "--universe", "512"], {}, 0),
    "cluster2": (" on two daemons", [], {}, 2),
    "cluster4": (" on four daemons", [], {}, 4),
    "open-mpi": (" under Open MPI's launcher", ["--oversubscribe"], {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    }, 0),
}


class Test:
    """What has become of a test: an event and a text for each rank."""

    def __init__(self):
        self.ranks = {}

    def is_on(self, ranks):
        """Whether all ranks have come to its end."""
        return len(self.ranks) == ranks

    def texts(self):
        return [text for _, text in self.ranks.values()]

    def verdict(self):
        """One word."""
        events = [event for event, _ in self.ranks.values()]
        if "crash" in events:
            return "failed"
        # Beside a rank that met the unsupported error the others may well miss something.
        if "missing" in events:
            return "missing"
        if "error" in events or "fail" in events:
            return "failed"
        return "passed" if "ok" in events else "skipped"


def unwritten(functions):
    """Names of the functions of the unwritten chapters."""
    names, chapter = [], ""
    for line in functions.read_text().splitlines():
        if line.startswith("["):
            chapter = line.strip("[]")
        found = re.search(r"\b(MPI_\w+)\(", line)
        if found and not line.startswith("#"):
            name = found.group(1)
            if chapter in UNWRITTEN_CHAPTERS:
                names.append(name)
    return names


def started(ranks, words, environment, output, options):
    """Python with these arguments on so many ranks of the network."""
    _, network_options, network_environment, daemons = options.network
    command = [options.mpiexec, *network_options]
    if daemons:
        command = [options.tutti, "run", "-N", min(daemons, ranks)]
    return subprocess.Popen(
        list(map(str, [*command, "-n", ranks, options.python, *words])), stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.STDOUT, start_new_session=True, env=os.environ | network_environment | environment,
    )


class Job:
    """The suite on some ranks, without the tests that are done already."""

    def __init__(self, ranks, done, options):
        self.ranks, self.folder = ranks, options.scratch
        for old in self.folder.glob("rank-*.jsonl"):
            old.unlink()
        left_out = os.environ.get("MPI4PY_LEAVE_OUT", "").split()
        (self.folder / "done").write_text("".join(f"{name}\n" for name in [*left_out, *(f"*{name}" for name in done)]))
        self.output = open(self.folder / "output", "w+b")
        rank = pathlib.Path(__file__).with_name("rank.py")
        # The workers of a pool find the tests' modules by PYTHONPATH.
        environment = {"TUTTI_UNWRITTEN": " ".join(options.unwritten), "PYTHONPATH": str(options.tests)}
        self.process = started(ranks, [rank, options.tests, self.folder, self.folder / "done"], environment, self.output, options)

    def events(self):
        """What each rank has noted so far."""
        def lines(path):
            text = path.read_text() if path.exists() else ""
            return [json.loads(line) for line in text.split("\n")[:-1]]
        return [lines(self.folder / f"rank-{rank}.jsonl") for rank in range(self.ranks)]

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def where_ranks_are(self):
        """What the ranks are doing: on this signal, which mpiexec passes on, each prints its stack."""
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(2)
        return self.last_words()

    def last_words(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")[-4000:]


def gathered(events):
    """From the notes of all ranks to tests in the order of their start."""
    tests = {}
    for rank, lines in enumerate(events):
        for event, name, text in lines:
            if event not in ("start", "end", "apart"):
                tests.setdefault(name, Test()).ranks[rank] = ("missing" if event == "met" else event, text)
    return tests


def current(rank):
    """The test that a rank is in, if any."""
    return rank[-1][1] if rank and rank[-1][0] in ("start", "met") else None


def watch(job):
    """Waits for the end of a job. Gives why it was cut short and in which test, or nothing."""
    quiet_since, noted = time.monotonic(), 0
    while True:
        over = job.process.poll() is not None
        events = job.events()
        if over:
            break
        now, before = time.monotonic(), noted
        noted = sum(map(len, events))
        if noted != before:
            quiet_since = now
        quiet = now - quiet_since
        stuck = [name for name in map(current, events) if name]
        met = {name for rank in events for event, name, _ in rank if event in ("missing", "met")}
        apart = [name for rank in events for event, name, _ in rank if event == "apart"]
        for name in apart + [name for name in stuck if name in met and quiet > LEFT_ALONE_S]:
            return events, name, None
        if quiet > TEST_LIMIT_S:
            return events, stuck[0] if stuck else "(between tests)", f"not at its end after {TEST_LIMIT_S} s: {job.where_ranks_are()}"
        time.sleep(0.1)
    if job.process.returncode == 0 and all(rank and rank[-1][0] == "end" for rank in events):
        return events, None, None
    stuck = [name for name in map(current, events) if name]
    return events, stuck[0] if stuck else "(between tests)", f"mpiexec ended with {job.process.returncode}: {job.last_words()}"


def alone(ranks, failed, results, texts, options):
    """Tests that an unwritten function has cut off in the middle leave objects behind, over which later ones may stumble (mpi4py has
    32 places for reduction operations). So what failed behind one runs once more in a job of its own, and that counts."""
    job = Job(ranks, [name for name in results if name not in failed], options)
    try:
        events, cut, why = watch(job)
    finally:
        job.kill()
    for name, test in gathered(events).items():
        if name in failed and test.is_on(ranks) and cut is None:
            results[name], texts[name] = test.verdict(), test.texts()


def suite(ranks, options):
    """Runs everything on so many ranks. Gives each test's verdict and the texts of what failed."""
    results, texts, crashed = once(ranks, options)
    words = list(results.values())
    behind = words.index("missing") if "missing" in words else len(words)
    failed = {name for name, word in list(results.items())[behind:] if word == "failed" and name not in crashed}
    if failed:
        alone(ranks, failed, results, texts, options)
    return results, texts


def once(ranks, options):
    """One pass, in as many jobs as it takes. Gives also which tests crashed or did not end."""
    results, texts, done, crashed = {}, {}, [], set()
    for _ in range(JOBS_MAX):
        job = Job(ranks, done, options)
        try:
            events, cut, why = watch(job)
        finally:
            job.kill()
        tests = gathered(events)
        if cut is not None:
            # What only some ranks have come to is run again.
            tests = {name: test for name, test in tests.items() if test.is_on(ranks) or name == cut}
            if why is not None:
                tests.setdefault(cut, Test()).ranks[0] = ("crash", why)
                crashed.add(cut)
        for name, test in tests.items():
            results[name], texts[name] = test.verdict(), test.texts()
        if cut is None:
            return results, texts, crashed
        if cut in done or cut not in tests:
            break
        done = list(results)
    results["the suite"], texts["the suite"] = "failed", ["it could not be brought to its end"]
    return results, texts, crashed | {"the suite"}


def reason(texts):
    """Why the suite skips a test, in a line."""
    return next((line for text in texts for line in text.splitlines() if line), "it does not say why")


def counted(ranks, options):
    """Runs the suite on so many ranks and says in a line what has become of it, and in more what failed. Gives how much that is."""
    start = time.monotonic()
    results, texts = suite(ranks, options)
    count = collections.Counter(results.values())
    failed = sorted(name for name, word in results.items() if word == "failed")
    print(
        f"{ranks} rank{'s' if ranks > 1 else ''}{options.network[0]}: "
        f"{len(results)} run, {count['passed']} passed, {count['failed']} failed, "
        f"{count['missing']} met an unwritten chapter's error, {count['skipped']} skipped by the suite "
        f"({time.monotonic() - start:.0f} s)", flush=True,
    )
    skipped = collections.Counter(reason(texts[name]) for name, word in results.items() if word == "skipped")
    for why, number in skipped.most_common():
        print(f"    {number} skipped: {why}", flush=True)
    for name in failed:
        worst = max(texts[name], key=len)
        print(f"    FAILED {name}\n" + "\n".join(f"        {line}" for line in worst.strip().splitlines()[-30:]), flush=True)
    (options.scratch / f"results-{ranks}.json").write_text(json.dumps({"results": results, "texts": texts}, indent=1))
    return len(failed)


def pooled(ranks, options):
    """Maps a function over numbers by a pool of the other ranks (`python -m mpi4py.futures`), which starts no process; the suite's own
    pools do. Says in a line what has become of it. Gives how much failed."""
    pool = pathlib.Path(__file__).with_name("pool.py")
    start = time.monotonic()
    with started(ranks, ["-m", "mpi4py.futures", pool], {}, subprocess.PIPE, options) as process:
        try:
            said = process.communicate(timeout=TEST_LIMIT_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = f"not at its end after {TEST_LIMIT_S} s: {process.communicate()[0].decode(errors='replace')}"
    is_right = process.returncode == 0 and said == "pool is right\n"
    print(
        f"{ranks} ranks{options.network[0]}: a pool without spawn {'passed' if is_right else 'FAILED'} "
        f"({time.monotonic() - start:.0f} s)", flush=True,
    )
    if not is_right:
        print("\n".join(f"    {line}" for line in [f"status {process.returncode}", *said.splitlines()[-30:]]), flush=True)
    return int(not is_right)


@contextlib.contextmanager
def cluster(options):
    """The daemons of the network, if it has any, as long as this lasts."""
    daemons = options.network[3]
    if not daemons:
        yield
        return
    folder = options.scratch / "cluster"
    os.environ |= {"TUTTI_DIR": str(folder), "TUTTI_DAEMON": str(folder / "tuttid.sock")}
    up = [options.tutti, "up", "--nodes", str(daemons)]
    if options.switch:
        # The log of an earlier run is not this one's.
        (folder / "turns.jsonl").unlink(missing_ok=True)
        up += ["--slice", options.switch, "--force-switch"]
    subprocess.run(up, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([options.tutti, "down"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if options.switch:
            print(f"switched every {options.switch} ms: {thaws(folder)} times a job was thawed on a node", flush=True)


def thaws(folder):
    """By the controller's log."""
    log = folder / "turns.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(turn[0] == "thaw" for line in lines for turn in json.loads(line)["turns"])


def main():
    class options:  # noqa: N801
        python, tests, mpiexec = sys.argv[1:4]
        tutti = str(pathlib.Path(mpiexec).with_name("tutti"))
        unwritten = unwritten(pathlib.Path(sys.argv[4]))
        scratch = pathlib.Path(sys.argv[5])
        network = NETWORKS[sys.argv[6]]
        switch = os.environ.get("MPI4PY_SWITCH")
    if options.switch and not options.network[3]:
        sys.exit("MPI4PY_SWITCH is for clusters: cluster2, cluster4")
    options.scratch.mkdir(parents=True, exist_ok=True)
    with cluster(options):
        numbers = list(map(int, sys.argv[7:] or "1234"))
        failures = sum(pooled(ranks, options) for ranks in numbers if ranks > 1)
        failures += sum(counted(ranks, options) for ranks in numbers)
    sys.exit(1 if failures else 0)


main()
