"""The Python interface (bindings/python) with a daemon of its own: submit, wait, cancel, jobs, why, blocking and by asyncio; what it
makes of a daemon that is absent, silent, replaced, or speaks rubbish. The rig names a folder: API_FOLDER."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import tutti
import tutti.aio
from tutti import _programs, _wire

FOLDER = Path(os.environ["API_FOLDER"])
DAEMON = FOLDER / "run/tuttid.sock"
LIMIT_S = 40


def await_that(what, is_so):
    end = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError(f"it was awaited that {what}")
        time.sleep(0.01)


def start_daemon():
    words = ["tuttid", "--listen", "127.0.0.1:0", "--name", "here", "--slots", "2"]
    words += ["--dir", str(FOLDER / "run"), "--state", str(FOLDER / "state")]
    # For so long the next daemon awaits the starters of jobs that it is asked for.
    words += ["--lost-after", str(LIMIT_S)]
    log = open(FOLDER / "log", "ab")
    started = subprocess.Popen([_programs.path(words[0]), *words[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def answers():
        try:
            return tutti.jobs() is not None
        except tutti.Error:
            return False

    await_that("the daemon answers", answers)
    return started


daemon = None


def setUpModule():
    global daemon
    os.environ["TUTTI_DAEMON"] = str(DAEMON)
    daemon = start_daemon()


def tearDownModule():
    daemon.terminate()
    daemon.wait(LIMIT_S)


def held(name):
    """A program that runs until a file is there; its end by that."""
    gate = FOLDER / f"gate-{name}"
    return ["sh", "-c", f"while [ ! -e '{gate}' ]; do sleep 0.02; done"], gate


class Blocking(unittest.TestCase):
    def test_job_is_submitted_and_awaited(self):
        output = FOLDER / "out.%j"
        program = ["sh", "-c", 'echo "$WORD in $(basename "$PWD")"']
        (FOLDER / "work").mkdir()
        number = tutti.submit(
            program, ranks=2, name="first", env={"WORD": "a word"}, cwd=FOLDER / "work", output=output, time="1h"
        )
        ended = tutti.wait(number, timeout=LIMIT_S)
        self.assertEqual((ended.number, ended.state, ended.status, ended.ranks), (number, "over", 0, 2))
        self.assertEqual((ended.name, ended.nodes, ended.uid), ("first", ("here",), os.getuid()))
        self.assertTrue(ended.is_over and ended.submitted and ended.started and ended.ended)
        self.assertEqual((FOLDER / f"out.{number}").read_text(), "a word in work\n" * 2)
        self.assertEqual(tutti.job(number).status, 0)
        self.assertIn(number, [job.number for job in tutti.jobs(over=True)])
        self.assertEqual(tutti.why(ended), ["is over with status 0"])

    def test_status_is_that_of_the_job(self):
        number = tutti.submit(["sh", "-c", "exit 3"], ranks=1, output="none")
        self.assertEqual(tutti.wait(number).status, 3)

    def test_job_that_waits_says_why_and_is_cancelled(self):
        program, _ = held("never")
        first = tutti.submit(program, ranks=1, output="none", options=["--exclusive"])
        await_that("it runs", lambda: tutti.job(first).state == "running")
        second = tutti.submit(program, ranks=1, output="none", after_ok=[first])
        self.assertEqual(tutti.job(second).state, "waiting")
        await_that("why says what it waits for", lambda: tutti.why(second) == [f"waits: {tutti.job(second).waits}"])
        listed = [job.number for job in tutti.jobs()]
        self.assertTrue(first in listed and second in listed)
        with self.assertRaises(TimeoutError):
            tutti.wait(first, timeout=0.05)
        tutti.cancel(second)
        tutti.cancel(tutti.job(first))
        for number in (first, second):
            self.assertNotEqual(tutti.wait(number, timeout=LIMIT_S).status, 0)

    def test_held_job_waits_until_it_is_released(self):
        number = tutti.submit(["true"], ranks=1, output="none", options=["--hold"])
        self.assertIn("it is held by", tutti.job(number).waits)
        tutti.release(number)
        self.assertEqual(tutti.wait(number, timeout=LIMIT_S).status, 0)
        with self.assertRaises(tutti.Refused):
            tutti.hold(number)

    def test_refusals_are_one_line(self):
        refused = [
            lambda: tutti.job(10**9),
            lambda: tutti.wait(10**9),
            lambda: tutti.cancel(10**9),
            lambda: tutti.why(10**9),
            lambda: tutti.submit("no-such-program-here", ranks=1),
            lambda: tutti.submit("true", ranks=1, time="a while"),
            lambda: tutti.submit("true", options=["--no-such-option"]),
        ]
        for call in refused:
            with self.assertRaises(tutti.Refused) as raised:
                call()
            text = str(raised.exception)
            self.assertTrue(text and "\n" not in text and not text.startswith("tutti"), text)
        with self.assertRaises(ValueError):
            tutti.submit([])

    def test_wait_goes_on_with_the_next_daemon(self):
        global daemon
        program, gate = held("replaced")
        number = tutti.submit(program, ranks=1, output="none")
        await_that("it runs", lambda: tutti.job(number).state == "running")
        connected, found = threading.Event(), []
        connect = _wire.connect

        def observed():
            stream = connect()
            connected.set()
            return stream

        waiter = threading.Thread(target=lambda: found.append(tutti.wait(number)))
        _wire.connect = observed
        try:
            waiter.start()
            self.assertTrue(connected.wait(LIMIT_S))
            daemon.send_signal(signal.SIGUSR1)
            daemon.wait(LIMIT_S)
            daemon = start_daemon()
            gate.touch()
            waiter.join(LIMIT_S)
        finally:
            _wire.connect = connect
        self.assertEqual([job.status for job in found], [0])


class Coroutines(unittest.IsolatedAsyncioTestCase):
    async def test_jobs_run_side_by_side(self):
        submitted = (tutti.aio.submit(["sh", "-c", f"exit {n}"], ranks=1, output="none") for n in range(3))
        numbers = await asyncio.gather(*submitted)
        ended = await asyncio.gather(*(tutti.aio.wait(number) for number in numbers))
        self.assertEqual([job.status for job in ended], [0, 1, 2])
        self.assertEqual((await tutti.aio.job(numbers[1])).status, 1)

    async def test_wait_that_is_given_up_leaves_the_job(self):
        program, _ = held("given-up")
        number = await tutti.aio.submit(program, ranks=1, output="none")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(tutti.aio.wait(number), 0.05)
        self.assertIn(number, [job.number for job in await tutti.aio.jobs()])
        self.assertEqual(len(await tutti.aio.why(number)), 1)
        await tutti.aio.cancel(number)
        self.assertTrue((await asyncio.wait_for(tutti.aio.wait(number), LIMIT_S)).is_over)
        with self.assertRaises(tutti.Refused):
            await tutti.aio.job(10**9)


class Wire(unittest.TestCase):
    """What comes of a daemon that is none."""

    def answered(self, *parts):
        """The jobs by a daemon that answers each connection with these bytes, one part after the other."""
        place = str(FOLDER / f"fake-{self.id().rsplit('.', 1)[1]}.sock")
        Path(place).unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        server.bind(place)
        server.listen()

        def serve():
            while True:
                try:
                    stream, _ = server.accept()
                except OSError:
                    return
                with stream:
                    stream.recv(1 << 16)
                    for part in parts:
                        stream.sendall(part)

        thread = threading.Thread(target=serve)
        thread.start()
        os.environ["TUTTI_DAEMON"] = place
        try:
            return tutti.jobs()
        finally:
            os.environ["TUTTI_DAEMON"] = str(DAEMON)
            # It wakes the thread, which a close alone does not.
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            server.close()

    @staticmethod
    def frame(kind, value):
        payload = json.dumps(value).encode()
        return _wire.HEAD.pack(kind, 0, len(payload)) + payload

    def test_folder_names_its_daemon(self):
        os.environ["TUTTI_DAEMON"] = str(DAEMON.parent)
        try:
            self.assertIsInstance(tutti.jobs(), list)
        finally:
            os.environ["TUTTI_DAEMON"] = str(DAEMON)

    def test_absent_daemon_is_named(self):
        os.environ["TUTTI_DAEMON"] = str(FOLDER / "absent.sock")
        try:
            with self.assertRaisesRegex(tutti.NoDaemon, "absent.sock .*tutti up"):
                tutti.jobs()
            with self.assertRaises(tutti.NoDaemon):
                asyncio.run(tutti.aio.jobs())
        finally:
            os.environ["TUTTI_DAEMON"] = str(DAEMON)

    def test_answer_may_come_in_pieces_behind_warnings(self):
        whole = self.frame(_wire.REPORT, {"Warning": "it takes a while"}) + self.frame(_wire.ANSWER, {"Jobs": []})
        with self.assertLogs("tutti", "WARNING") as logged:
            self.assertEqual(self.answered(*(whole[at : at + 1] for at in range(len(whole)))), [])
        self.assertEqual(logged.output, ["WARNING:tutti:it takes a while"])

    def test_rubbish_is_an_error_of_ours(self):
        rubbish = [
            self.frame(99, {}),
            self.frame(_wire.ANSWER, {"Jobs": 7}),
            self.frame(_wire.ANSWER, "Done"),
            _wire.HEAD.pack(_wire.ANSWER, 0, 2) + b"{{",
            _wire.HEAD.pack(_wire.ANSWER, 0, 1 << 31),
        ]
        for answer in rubbish:
            with self.assertRaisesRegex(tutti.Error, "another version"):
                self.answered(answer)

    def test_daemon_that_hangs_up_is_an_error(self):
        with self.assertRaisesRegex(tutti.Error, "closed the connection"):
            self.answered(b"\x21")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
