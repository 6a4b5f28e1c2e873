#!/usr/bin/env python3
"""MPICH's C tests (its test/mpi) on an installation tree of Tutti.

usage: c.py SUITE DIST RESULTS [FOLDER...] [-- OPTION OF MPIEXEC...]

CONFORMANCE_WAY in the environment says where the ranks are: node (the default), nodes (half of them on each of two
virtual nodes, which reach each other over UDP), crowded (all ranks of a test on one core).

Builds every test of the folders' testlists with DIST/bin/mpicc and runs it as the list says. Prints a line for each test
that did not pass, with the reason that reasons.py knows, a table of passed and total per folder and one of whose matter the
others are, and leaves what each printed in RESULTS. A test passes when it ends with status 0 and prints "No Errors", unless
its line asks for another end. Tests marked `xfail` are counted as all others. Lines that MPICH's own configure fills in
(@...@) are taken without the mark.
"""
import concurrent.futures, os, pathlib, re, shlex, shutil, subprocess, sys

from reasons import reason
from way import LIMIT_S, launcher

FOLDERS = ["attr", "coll", "comm", "datatype", "errhan", "errors", "group", "info", "init", "io", "mpi_t", "part", "pt2pt", "rma",
           "spawn", "threads", "topo"]
# Not C, or tests of MPICH's own fault tolerance, speed or extensions.
OTHERS = {"cxx", "f77", "f90", "f08", "faults", "perf"}
CONFIGURATION = "".join(f"#define HAVE_{name} 1\n" for name in """STDLIB_H STDIO_H STRING_H STRINGS_H STDARG_H UNISTD_H MEMORY_H
    INTTYPES_H STDINT_H LONG_DOUBLE LONG_LONG LONG_LONG_INT GETRUSAGE SYS_RESOURCE_H SYS_TIME_H PTHREAD_H PTHREAD_BARRIER_INIT USLEEP
    GETTIMEOFDAY MPI_WIN_CREATE FLOAT__COMPLEX DOUBLE__COMPLEX LONG_DOUBLE__COMPLEX INT8_T INT16_T INT32_T INT64_T MPI_IO
    """.split()) + """#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define THREAD_PACKAGE_POSIX 2
#define THREAD_PACKAGE_NONE 1
#define MTEST_THREAD_DEFAULT_SUPPORT 1
#define HAVE_VISIBILITY 0
#define MTEST_HAVE_MIN_MPI_VERSION(a, b) ((MPI_VERSION == a && MPI_SUBVERSION >= b) || MPI_VERSION > a)
"""


def run(command, cwd, limit=LIMIT_S, environment=None):
    try:
        ran = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", timeout=limit, env=environment)
        return ran.returncode, ran.stdout
    except subprocess.TimeoutExpired as over:
        text = over.stdout or b""
        return 124, (text.decode(errors="replace") if isinstance(text, bytes) else text) + f"\nnot at its end after {limit} s\n"


class Way:
    """A way to run the tests' programs: a name, a function from the number of ranks to the beginning of a command of mpiexec, and what
    tests of spawn need besides."""

    def __init__(self, name, launcher, room=()):
        self.name, self.launcher, self.room = name, launcher, list(room)


class Suite:
    """The tests, compiled by `mpicc` and run in each of the ways."""

    def __init__(self, source, mpicc, results, ways):
        self.mpicc, self.work, self.ways = str(mpicc), results / "build", ways
        shutil.rmtree(results, ignore_errors=True)
        shutil.copytree(source, self.work)
        # MPICH's configure makes one file for both ways of its tests of files, and writes what it has found.
        for folder in ("include", "dtpools/include", "dtpools/src", "dtpools"):
            for name in ("mpitestconf.h", "mpithreadtestconf.h", "dtpoolsconf.h"):
                (self.work / folder / name).write_text(CONFIGURATION)
        (self.work / "include" / "mtest_mpix.h").touch()
        self.flags = ["-w", "-DHAVE_CONFIG_H", "-DHAVE_MPITESTCONF_H", "-include", str(self.work / "include/mpitestconf.h")]
        self.flags += [f"-I{self.work / folder}" for folder in ("include", "dtpools/include", "dtpools/src", "util")]
        own = self.work / "objects"
        own.mkdir()
        self.objects = []
        sources = [self.work / "util" / name for name in ("mtest.c", "mtest_common.c", "mtest_thread.c", "dtypes.c")]
        for source in sources + sorted((self.work / "dtpools" / "src").glob("dtpools*.c")):
            code, said = run([self.mpicc, *self.flags, "-c", str(source)], own)
            if code:
                sys.exit(f"{source.name} does not compile:\n{said}")
            self.objects.append(str(own / (source.stem + ".o")))

    def lines(self, folder):
        for name in ("testlist.in", "testlist", "testlist.dtp"):
            if (folder / name).exists():
                for line in (folder / name).read_text().splitlines():
                    line = re.sub("@[A-Z0-9a-z_]+@", "", line.split("#")[0]).strip()
                    if len(line.split()) > 1:
                        yield line
                if name == "testlist.in":
                    return

    def build(self, folder, test, own):
        """The executable, or why there is none."""
        makefile = folder / "Makefile.am"
        text = makefile.read_text().replace("\\\n", " ") if makefile.exists() else ""
        value = lambda what: re.search(rf"^{re.escape(test)}_{what}\s*=\s*(.*)$", text, re.M)
        named = value("SOURCES").group(1).split() if value("SOURCES") else []
        sources = [name for name in named if name.endswith(".c")]
        if not sources:
            sources = [test + ".c"]
        if not (folder / sources[0]).exists():
            return None, "no source", ""
        flags = [flag for flag in (value("CPPFLAGS").group(1).split() if value("CPPFLAGS") else []) if flag.startswith("-D")]
        place = own / test
        code, said = run([self.mpicc, *self.flags, f"-I{folder}", *flags, *(str(folder / name) for name in sources),
                          *self.objects, "-lm", "-lpthread", "-o", str(place)], folder)
        return (place, "", "") if code == 0 else (None, "does not compile", said)

    def one(self, folder, number, line):
        """The test of a line: its name, the line, and for each way why it did not pass and what it printed."""
        words = shlex.split(line)
        test = words[0]
        name = f"{folder.relative_to(self.work)}/{test}"
        # A folder for each test: some write files, and programs start others of theirs.
        own = folder / f"own-{number}-{test}"
        own.mkdir()
        place, why, said = self.build(folder, test, own)
        outcomes = [self.ran(way, name, words, own) if place else (why, said) for way in self.ways]
        # Programs that are no program's tests any more take room.
        shutil.rmtree(own, ignore_errors=True)
        return name, line, outcomes

    def ran(self, way, name, words, own):
        test, ranks = words[0], words[1]
        options = [word.split("=", 1) for word in words[2:] if "=" in word]
        first = dict(reversed(options))
        environment = dict(os.environ, **dict(value.split("=", 1) for key, value in options if key == "env"))
        arguments = [value for key, value in options if key == "arg"]
        limit = max(int(first.get("timeLimit", 0)), LIMIT_S)
        room = way.room if "spawn" in name else []
        command = [*way.launcher(int(ranks)), *room, "-n", ranks, f"./{test}", *arguments]
        # Some tests are about a job that is ended by its launcher.
        environment["MPIEXEC_TIMEOUT"] = str(limit)
        code, said = run(command, own, limit + 20, environment)
        return failure(first.get("resultTest", ""), code, said), said


def failure(asked, code, said):
    """Why a test that ended so did not pass; empty if it did."""
    printed = re.search("^ *No Errors *$", said, re.I | re.M)
    if asked in ("TestStatus", "TestErrFatal"):
        return "" if code else "ended well, should fail"
    if asked == "TestStatusNoErrors":
        return "" if code and printed else f"status {code}"
    if code:
        return f"status {code}"
    return "" if printed else "does not print No Errors"


def listed(suite, wanted):
    """The lines of the lists of these folders, each with its folder and number."""
    jobs = []
    for name in wanted or FOLDERS:
        root = suite.work / name
        folders = [root] + sorted(path for path in root.glob("*") if path.is_dir() and path.name not in OTHERS)
        for folder in folders:
            jobs += [(folder, number, line) for number, line in enumerate(suite.lines(folder))
                     if (folder / (line.split()[0] + ".c")).exists() or folder != root or folder.name not in ("errors", "threads")]
    return jobs


def keep(results, name, number, line, said):
    """Leaves what a test has printed."""
    log = results / f"{name}.{number}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{line}\n{said}")


def main():
    words, _, options = (lambda at: (sys.argv[1:at], None, sys.argv[at + 1:]))(
        sys.argv.index("--") if "--" in sys.argv else len(sys.argv))
    source, dist, results = (pathlib.Path(word).resolve() for word in words[:3])
    ours = Way("ours", lambda ranks: [*launcher(dist, ranks), *options], ["--universe", "300"])
    suite = Suite(source, dist / "bin/mpicc", results, [ours])
    jobs = listed(suite, words[3:])
    total_of, whose_of = {}, {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, (name, line, [(why, said)]) in enumerate(pool.map(lambda job: suite.one(*job), jobs)):
            passed, total = total_of.get(os.path.dirname(name), (0, 0))
            total_of[os.path.dirname(name)] = passed + (not why), total + 1
            keep(results, name, number, line, said)
            if why:
                whose, what = reason(name)
                whose_of[whose] = whose_of.get(whose, 0) + 1
                print(f"{os.path.dirname(name)}: {line}: {why} ({whose}{': ' if what else ''}{what})", flush=True)
    print("\n| folder | passed | total |\n|---|---|---|")
    for name, (passed, total) in total_of.items():
        print(f"| {name} | {passed} | {total} |")
    passed, total = (sum(pair[at] for pair in total_of.values()) for at in (0, 1))
    print(f"| all | {passed} | {total} |")
    if whose_of:
        print("\n| whose matter | tests |\n|---|---|")
        for whose, tests in sorted(whose_of.items()):
            print(f"| {whose} | {tests} |")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main())
