"""One rank of mpi4py's own test suite: runs `main.py` of its source distribution and notes what becomes of every test.

    suite.py, as rank.py starts it: TESTS NOTES DONE...

TESTS is the folder of the suite. Into NOTES/rank-N.jsonl goes one line per event, `[event, test, text]`, where event is

    start        the test begins
    ok           it passed
    skip         the suite itself skips it (text: why)
    missing      it (or its module, when it is loaded) met MPI_ERR_UNSUPPORTED_OPERATION of a function in a chapter that is not written (text: the error)
    met          a thread of it met that error; what becomes of it comes later, or never
    apart        the ranks have left it by different ways (see `stay_together`): nothing more can be tested in this job
    fail, error  anything else (text: the traceback)
    end          all tests are through

Tests whose names stand in the file DONE are not run again. run.py starts this and adds up.
"""

import faulthandler
import fcntl
import json
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import unittest

tests, notes_folder, done = sys.argv[1:4]
faulthandler.register(signal.SIGUSR1)
sys.path.insert(0, tests)
sys.dont_write_bytecode = True

import main  # noqa: E402  (of the suite)

from mpi4py import MPI  # noqa: E402

SIOCGIFADDR = 0x8915
UNWRITTEN = frozenset(os.environ["TUTTI_UNWRITTEN"].split())
notes = open(os.path.join(notes_folder, f"rank-{MPI.COMM_WORLD.Get_rank()}.jsonl"), "w", buffering=1)


def note(event, test="", text=""):
    notes.write(json.dumps([event, test, text]) + "\n")


def outcome_on(rank, test):
    """What a rank has noted of how a test ended, or nothing yet."""
    try:
        lines = open(os.path.join(notes_folder, f"rank-{rank}.jsonl")).read().split("\n")[:-1]
    except FileNotFoundError:
        return None
    for event, name, text in map(json.loads, lines):
        if name == test and event not in ("start", "met"):
            return event, text
    return None


def stay_together(test, mine):
    """A rank that met the unsupported error has left the test before its end. It waits until the others are through too, and goes on
    only if all of them met the same error.

    Otherwise a rank may have done a collective operation, or may still wait in one, that another has left out: `testJoin` of
    test_dynproc fails on ranks 0 and 1 and leaves all others in a barrier, which the next operations of those two would complete. From
    then on operations of different tests would meet, until ranks wait for each other for ever, many tests later.
    """
    for rank in range(MPI.COMM_WORLD.Get_size()):
        while (outcome := outcome_on(rank, test)) is None:
            time.sleep(0.01)
        if outcome != mine:
            note("apart", test)
            while True:
                signal.pause()


def unsupported(error):
    """The text of the unsupported error of an unwritten function behind an exception, or nothing."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MPI.Exception) and error.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION:
            text = error.Get_error_string()
            if any(name.removesuffix("_c") in UNWRITTEN for name in re.findall(r"MPI_\w+", text)):
                return text
        error = error.__cause__ or error.__context__
    return None


class Loader(main.TestLoader):
    """Keeps what a module raises when it is loaded; `unittest` keeps its text only.

    A module that meets an unwritten function then is noted, and loaded once more with windows and files that raise
    NotImplementedError, by which the suite knows what an MPI does not have: it then runs the rest of the module.
    """

    raised = {}

    def _get_module_from_name(self, name):
        try:
            return super()._get_module_from_name(name)
        except Exception as error:
            self.raised[name] = error
            text = unsupported(error)
            if text is None:
                raise
            note("start", name)
            note("missing", name, text)
        kept = MPI.File, MPI.Win
        try:
            MPI.File, MPI.Win = map(not_written, kept)
            return super()._get_module_from_name(name)
        finally:
            MPI.File, MPI.Win = kept


def not_written(kind):
    """A class like `kind` of which no object can be made."""

    def refuse(*_arguments, **_named):
        raise NotImplementedError

    makers = ("Open", "Create", "Allocate", "Allocate_shared", "Create_dynamic")
    return type(kind.__name__, (kind,), {name: staticmethod(refuse) for name in makers if hasattr(kind, name)})


class Result(unittest.TestResult):
    """Notes events; `unittest` calls it."""

    current = ""

    def startTest(self, test):
        super().startTest(test)
        Result.current = test.id()
        self.outcome = None
        note("start", test.id())

    def stopTest(self, test):
        super().stopTest(test)
        event, name, text = self.outcome or ("ok", test.id(), "")
        note(event, name, text)
        if event == "missing":
            stay_together(name, (event, text))

    def bad(self, event, test, error):
        text = unsupported(error[1]) or unsupported(Loader.raised.get(getattr(test, "_testMethodName", None)))
        if text is not None:
            event = "missing"
        else:
            text = "".join(traceback.format_exception(*error))
        # A test of several parts is as bad as the worst of them.
        if self.outcome is None or self.outcome[0] in ("skip", "missing"):
            self.outcome = (event, test.id(), text)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.bad("fail", test, err)

    def addError(self, test, err):
        super().addError(test, err)
        if isinstance(test, unittest.TestCase):
            self.bad("error", test, err)
            return
        # What a class or module needs before its tests could not be made: none of them runs.
        self.outcome = None
        self.bad("error", test, err)
        note("start", test.id())
        note(*self.outcome)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.bad("fail" if issubclass(err[0], test.failureException) else "error", test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.outcome is None:
            self.outcome = ("skip", test.id(), reason)
        if not isinstance(test, unittest.TestCase):
            note("start", test.id())
            note(*self.outcome)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome = ("fail", test.id(), "passed, expected to fail")


def thread_failed(arguments, usual=threading.excepthook):
    text = unsupported(arguments.exc_value)
    if text is not None:
        note("met", Result.current, text)
    usual(arguments)


threading.excepthook = thread_failed


class Runner:
    """What `main.py` is given to run its tests with."""

    def run(self, suite):
        result = Result()
        result.startTestRun()
        suite(result)
        result.stopTestRun()
        return result


def address_between_namespaces():
    """This node's address on the link that `mpiexec --netns` makes, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            return socket.inet_ntoa(fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", b"tutti"))[20:24])
        except OSError:
            return None


# The machine's name leads to the loopback interface, which each namespace has for itself; `testJoin` connects two ranks by it.
if address := address_between_namespaces():
    socket.gethostname = lambda: address

main.TestLoader = Loader
try:
    main.TestProgram(module=None, argv=["main.py", "-q", "--xfile", done], testRunner=Runner())
except SystemExit:
    pass
note("end")
