#!/usr/bin/env python3
"""MPICH's Fortran tests (folders f77, f90, f08 of its test/mpi) on an installation tree of Tutti.

usage: fortran.py SUITE DIST RESULTS [FOLDER...] [-- OPTION OF MPIEXEC...]

CONFORMANCE_WAY says where the ranks are (way.py).

Builds every test of every testlist with DIST/bin/mpifort and runs it as the list says. Prints a table of passed and
total per folder and a line for each test that did not pass, and leaves what each printed in RESULTS. A test passes
when it ends with status 0 and prints "No Errors". Sources in the folders io that MPICH's own make writes are made here
with its script.
"""
import concurrent.futures, os, pathlib, re, shutil, subprocess, sys

from way import LIMIT_S, launcher

ADDRESS, OFFSET = "integer*8", "integer*8"
PLACEHOLDERS = {"@F77_MPI_ADDRESS@": ADDRESS, "@F77_MPI_OFFSET@": OFFSET, "@F77_MPI_INTEGER@": "integer"}


def run(command, cwd, limit=LIMIT_S):
    try:
        ran = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", timeout=limit)
        return ran.returncode, ran.stdout
    except subprocess.TimeoutExpired as over:
        text = over.stdout or b""
        return 124, (text.decode(errors="replace") if isinstance(text, bytes) else text) + f"\nnot at its end after {limit} s\n"


class Suite:
    def __init__(self, source, dist, results, options):
        self.dist, self.work, self.options = dist, results / "build", options
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(source, self.work)
        for made in self.work.glob("f*/*/*.h.in"):
            text = made.read_text()
            for name, value in PLACEHOLDERS.items():
                text = text.replace(name, value)
            made.with_suffix("").write_text(text)
        self.make_sources_of_io()
        self.objects = {}
        self.tool = str(dist / "bin" / "mpifort")
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

    def prepare(self, folder):
        """Compiles what all tests of a folder are linked with."""
        name = {"f77": "mtest_f77.f", "f90": "mtest_f90.f90", "f08": "mtest_f08.f90"}[folder]
        util = self.work / "util"
        code, said = run([self.tool, "-w", "-c", name], util)
        if code:
            sys.exit(f"util/{name} does not compile:\n{said}")
        own = str(self.dist / "bin" / "mpicc")
        for c in ("mtest.c", "mtest_common.c", "mtest_single.c"):
            run([own, "-w", "-I../include", "-DHAVE_MPITESTCONF_H", "-c", c], util)
        self.objects[folder] = [str(util / (name.rsplit(".", 1)[0] + ".o"))]

    def sources(self, folder, test):
        makefile = next((folder / m for m in ("Makefile.am", "Makefile.ap") if (folder / m).exists()), None)
        text = makefile.read_text().replace("\\\n", " ") if makefile else ""
        found = re.search(rf"^(?:nodist_)?{re.escape(test)}_SOURCES\s*=\s*(.*)$", text, re.M)
        if found:
            return [name for name in found.group(1).split() if not name.endswith((".h", ".in"))]
        for ending in (".f", ".f90"):
            if (folder / (test + ending)).exists():
                return [test + ending]
        return []

    def one(self, face, folder, line):
        words = line.split()
        test, ranks = words[0], words[1] if len(words) > 1 else "2"
        options = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        name = f"{face}/{folder.name}/{test}"
        sources = self.sources(folder, test)
        if not sources:
            return name, "no source", ""
        # A folder for each test: sources of several tests make modules of the same name.
        own = folder / f"own-{test}"
        own.mkdir(exist_ok=True)
        objects = []
        for source in sources:
            is_c = source.endswith(".c")
            tool = str(self.dist / "bin" / "mpicc") if is_c else self.tool
            flags = ["-DF77_NAME_LOWER_USCORE=1"] if is_c else [f"-I{self.work}/util"]
            folders = [f"-I{folder}", f"-I{self.work}/f77/attr"]
            code, said = run([tool, "-w", *folders, f"-I{self.work}/include", *flags, "-c", str(folder / source)], own)
            if code:
                return name, "does not compile", said
            objects.append(pathlib.Path(source).stem + ".o")
        util = list(self.objects[face])
        if any(source.endswith(".c") for source in sources):
            util += [str(self.work / "util" / o) for o in ("mtest.o", "mtest_common.o", "mtest_single.o") if (self.work / "util" / o).exists()]
        code, said = run([self.tool, *objects, *util, "-o", test], own)
        if code:
            return name, "does not link", said
        limit = max(int(options.get("timeLimit", 0)), LIMIT_S)
        arguments = [word.split("=", 1)[1] for word in words[2:] if word.startswith("arg=")]
        room = ["--universe", "100"] if folder.name == "spawn" else []
        code, said = run([*launcher(self.dist, int(ranks)), *self.options, *room, "-n", ranks, f"./{test}", *arguments], own, limit)
        if options.get("resultTest") == "TestErrFatal":
            return name, "" if code else "ended well, should not", said
        if code:
            return name, f"status {code}", said
        return name, "" if re.search("No Errors", said, re.I) else "does not print No Errors", said


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


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    words, options = sys.argv[1:at], sys.argv[at + 1:]
    source, dist, results = (pathlib.Path(word).resolve() for word in words[:3])
    wanted = words[3:] or ["f77", "f90", "f08"]
    suite = Suite(source, dist, results, options)
    total_of = {}
    for face in wanted:
        suite.prepare(face.split("/")[0])
        face, _, only = face.partition("/")
        jobs = []
        for folder in sorted(path for path in (suite.work / face).iterdir() if path.is_dir()):
            lists = [folder / n for n in ("testlist", "testlist.in", "testlist.ap") if (folder / n).exists()]
            if not lists or only and folder.name != only:
                continue
            lines = [re.sub("@[A-Z0-9a-z_]+@", "", line).strip() for line in lists[0].read_text().splitlines()]
            jobs += [(folder, line) for line in dict.fromkeys(lines) if line and not line.startswith("#")]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, why, said in pool.map(lambda job: suite.one(face, *job), jobs):
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


sys.exit(main())
