#!/usr/bin/env python3
"""MPICH's tests in Fortran and C++ (folders f77, f90, f08, cxx of its test/mpi) on an installation tree of Tutti.

usage: fortran.py SUITE DIST RESULTS [FOLDER...] [-- OPTION OF MPIEXEC...]

CONFORMANCE_WAY says where the ranks are (way.py).

Builds every test of every testlist with DIST/bin/mpifort and runs it as the list says. Prints a table of passed and
total per folder and a line for each test that did not pass, and leaves what each printed in RESULTS. A test passes
when it ends with status 0 and prints "No Errors". Sources in the folders io that MPICH's own make writes are made here
with its script. The folder cxx needs a compiler wrapper with the C++ interface that MPI-3.0 has removed, which MPICH's
is (both.py).
"""
import concurrent.futures, os, pathlib, re, shutil, sys

import c
from c import run
from way import LIMIT_S, launcher

FACES = ["f77", "f90", "f08"]

ADDRESS, OFFSET = "integer*8", "integer*8"
PLACEHOLDERS = {"@F77_MPI_ADDRESS@": ADDRESS, "@F77_MPI_OFFSET@": OFFSET, "@F77_MPI_INTEGER@": "integer"}


class Suite:
    """The tests, compiled by the wrappers (mpifort, mpicc, mpicxx) in the folder `tools` and run in each of the ways."""

    def __init__(self, source, tools, results, ways):
        self.work, self.ways = results / "build", ways
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(source, self.work)
        for made in self.work.glob("f*/*/*.h.in"):
            text = made.read_text()
            for name, value in PLACEHOLDERS.items():
                text = text.replace(name, value)
            made.with_suffix("").write_text(text)
        self.make_sources_of_io()
        self.objects = {}
        self.mpicc, self.mpifort, self.mpicxx = (str(tools / name) for name in ("mpicc", "mpifort", "mpicxx"))
        (self.work / "include" / "mpitestconf.h").write_text(CONFIGURATION)
        (self.work / "include" / "mtest_mpix.h").touch()
        # MPICH's configure copies these for its other folders.
        for folder in ("ext", "io", "rma"):
            for c in (self.work / "f77" / folder).glob("*.c"):
                for name in (c.name, c.name.replace("c2f2c", "c2f902c")):
                    place = self.work / "f08" / folder / name
                    place.parent.is_dir() and not place.exists() and shutil.copy(c, place)

    def make_sources_of_io(self):
        """Writes the sources in the folders io that MPICH's configure and make would write."""
        common, own = (self.work / "maint" / name for name in ("common.defn", "testmerge"))
        if not (self.work / "maint" / "testmerge.in").exists():
            return
        own.write_text((self.work / "maint" / "testmerge.in").read_text().replace("@PERL@", shutil.which("perl") or "perl"))
        fragments, frame = ((self.work / "f77/io" / f"ioharness.{ending}").read_text() for ending in ("defn", "tlt"))
        # As in f90/io/Makefile.ap.
        fragments = re.sub('filename="(.*)f.f"', r'filename="\1f90.f90"', fragments)
        fragments = re.sub("include.*iooffset.*", "integer (kind=MPI_OFFSET_KIND)offset", fragments)
        for pattern, text in (("include.*mpif.*", "use mpi"), ("fheader", "f90header"), ("(?m)^C", "!"), ("(?m)^.*implicit *none.*\n", "")):
            frame = re.sub(pattern, text, frame)
        (self.work / "f90/io/ioharness.defn").write_text(fragments)
        (self.work / "f90/io/ioharness.tlt").write_text(frame)
        for face in ("f77", "f90", "f08"):
            code, said = run(["perl", str(own), f"-defn={common}", "ioharness.defn", "ioharness.tlt"], self.work / face / "io")
            if code or not list((self.work / face / "io").glob("iwriteat*")):
                sys.exit(f"{face}/io: its sources cannot be made:\n{said}")

    def prepare(self, face):
        """Compiles what all tests of a face are linked with."""
        name = {"f77": "mtest_f77.f", "f90": "mtest_f90.f90", "f08": "mtest_f08.f90", "cxx": "mtest_cxx.cxx"}[face]
        util = self.work / "util"
        tool = self.mpicxx if face == "cxx" else self.mpifort
        code, said = run([tool, "-w", *(CXX_FLAGS if face == "cxx" else []), "-I../include", "-c", name], util)
        if code:
            sys.exit(f"util/{name} does not compile:\n{said}")
        for source in ("mtest.c", "mtest_common.c", "mtest_single.c"):
            run([self.mpicc, "-w", "-I../include", "-DHAVE_MPITESTCONF_H", "-c", source], util)
        self.objects[face] = [str(util / (name.rsplit(".", 1)[0] + ".o"))]
        if face == "cxx":
            self.objects[face].append(str(util / "mtest_common.o"))

    def sources(self, folder, test):
        makefile = next((folder / m for m in ("Makefile.am", "Makefile.ap") if (folder / m).exists()), None)
        text = makefile.read_text().replace("\\\n", " ") if makefile else ""
        found = re.search(rf"^(?:nodist_)?{re.escape(test)}_SOURCES\s*=\s*(.*)$", text, re.M)
        if found:
            return [name for name in found.group(1).split() if not name.endswith((".h", ".in"))]
        for ending in (".f", ".f90", ".cxx"):
            if (folder / (test + ending)).exists():
                return [test + ending]
        return []

    def one(self, folder, number, line):
        """The test of a line: its name, the line, and for each way why it did not pass and what it printed."""
        words = line.split()
        test = words[0]
        name = f"{folder.parent.name}/{folder.name}/{test}"
        # A folder for each test: sources of several tests make modules of the same name.
        own = folder / f"own-{number}-{test}"
        own.mkdir(exist_ok=True)
        why, said = self.build(folder, test, own)
        outcomes = [(why, said) if why else self.ran(way, folder, words, own) for way in self.ways]
        return name, line, outcomes

    def build(self, folder, test, own):
        """Why there is no executable, and what the compiler said; empty if there is one."""
        face = folder.parent.name
        sources = self.sources(folder, test)
        if not sources:
            return "no source", ""
        objects = []
        for source in sources:
            is_c = source.endswith(".c")
            tool, flags = self.mpifort, [f"-I{self.work}/util"]
            if is_c:
                tool, flags = self.mpicc, ["-DF77_NAME_LOWER_USCORE=1"]
            elif face == "cxx":
                tool, flags = self.mpicxx, CXX_FLAGS
            folders = [f"-I{folder}", f"-I{self.work}/f77/attr"]
            code, said = run([tool, "-w", *folders, f"-I{self.work}/include", *flags, "-c", str(folder / source)], own)
            if code:
                return "does not compile", said
            objects.append(pathlib.Path(source).stem + ".o")
        util = list(self.objects[face])
        if any(source.endswith(".c") for source in sources):
            util += [str(self.work / "util" / o) for o in ("mtest.o", "mtest_common.o", "mtest_single.o") if (self.work / "util" / o).exists()]
        tool = self.mpicxx if face == "cxx" else self.mpifort
        code, said = run([tool, *objects, *util, "-o", test], own)
        return ("does not link", said) if code else ("", "")

    def ran(self, way, folder, words, own):
        test, ranks = words[0], words[1] if len(words) > 1 else "2"
        options = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        limit = max(int(options.get("timeLimit", 0)), LIMIT_S)
        arguments = [word.split("=", 1)[1] for word in words[2:] if word.startswith("arg=")]
        room = way.room if folder.name == "spawn" else []
        code, said = run([*way.launcher(int(ranks)), *room, "-n", ranks, f"./{test}", *arguments], own, limit)
        return c.failure(options.get("resultTest", ""), code, said), said


CONFIGURATION = """#define HAVE_STDLIB_H 1
#define HAVE_STDIO_H 1
#define HAVE_STRING_H 1
#define HAVE_STDARG_H 1
#define HAVE_UNISTD_H 1
#define HAVE_LONG_LONG_INT 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_STDINT_H 1
#define HAVE_INTTYPES_H 1
#define HAVE_MPI_WIN_CREATE 1
#define HAVE_SYS_TIME_H 1
#define F77_NAME_LOWER_USCORE 1
#define THREAD_PACKAGE_NONE 1
#define THREAD_PACKAGE_POSIX 2
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define MTEST_HAVE_MIN_MPI_VERSION(a, b) ((MPI_VERSION == a && MPI_SUBVERSION >= b) || MPI_VERSION > a)
"""


# What MPICH's configure finds of a compiler of C++.
CXX_FLAGS = ["-DHAVE_MPITESTCONF_H", "-DHAVE_IOSTREAM", "-DHAVE_NAMESPACE_STD"]


def listed(suite, wanted):
    """The lines of the lists of these folders (FACE or FACE/FOLDER), each with its folder and number."""
    jobs = []
    for name in wanted or FACES:
        face, _, only = name.partition("/")
        if face not in suite.objects:
            suite.prepare(face)
        for folder in sorted(path for path in (suite.work / face).iterdir() if path.is_dir()):
            lists = [folder / n for n in ("testlist", "testlist.in", "testlist.ap") if (folder / n).exists()]
            if not lists or only and folder.name != only:
                continue
            lines = [re.sub("@[A-Z0-9a-z_]+@", "", line).strip() for line in lists[0].read_text().splitlines()]
            lines = [line for line in dict.fromkeys(lines) if line and not line.startswith("#")]
            jobs += [(folder, number, line) for number, line in enumerate(lines)]
    return jobs


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    words, options = sys.argv[1:at], sys.argv[at + 1:]
    source, dist, results = (pathlib.Path(word).resolve() for word in words[:3])
    ours = c.Way("ours", lambda ranks: [*launcher(dist, ranks), *options], ["--universe", "100"])
    suite = Suite(source, dist / "bin", results, [ours])
    jobs = listed(suite, words[3:])
    total_of = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, _, [(why, said)] in pool.map(lambda job: suite.one(*job), jobs):
            passed, total = total_of.get(os.path.dirname(name), (0, 0))
            total_of[os.path.dirname(name)] = passed + (not why), total + 1
            log = results / (name + ".log")
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(said)
            if why:
                print(f"{name}: {why}", flush=True)
    print("\n| folder | passed | total |\n|---|---|---|")
    for name, (passed, total) in total_of.items():
        print(f"| {name} | {passed} | {total} |")
    passed, total = (sum(pair[at] for pair in total_of.values()) for at in (0, 1))
    print(f"| all | {passed} | {total} |")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main())
