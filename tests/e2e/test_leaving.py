"""Programs that die, fault, reset their device, fork, or exit while threads of theirs wait: the server is as it was, and nobody else
notices. Calls that wait inside of the driver hold up what depends on them, and nothing else (C3, C5, B2)."""

import itertools
import os
import signal
import socket
import subprocess
import time
import unittest

import harness
from test_failure import working, workers_of

LEAVE = harness.programs()["leave"]
OVERTAKEN = harness.programs()["overtaken"]
MEMORY = harness.programs()["memory_left"]
READY = 2


def setUpModule():
    for program in (LEAVE, OVERTAKEN, MEMORY, harness.programs()["until_error"]):
        harness.build_program(program)


class LeavingTest(unittest.TestCase):
    """Each test has a second session under way, which must go on."""

    def setUp(self):
        self.server = harness.Server(flags=["--workers-ready", str(READY), "--grace-seconds", "1"])
        self.addCleanup(self.server.__exit__)
        self.witness = working(self.server)
        self.addCleanup(self.end_witness)
        self.free = self.free_memory()

    def end_witness(self):
        self.witness.kill()
        self.witness.communicate()

    def free_memory(self):
        done = harness.run([MEMORY.binary], "remote", self.server)
        self.assertEqual(done.code, 0, done.stderr + self.server.log_text())
        return done.stdout

    def expect_as_before(self):
        # The witness's worker, and those that are ready.
        self.assertTrue(harness.until(lambda: len(workers_of(self.server)) == READY + 1, 20),
                        f"{workers_of(self.server)}\n{self.server.log_text()}")
        self.assertEqual(self.free_memory(), self.free)
        self.assertIsNone(self.witness.poll(), "the other session has ended")

    def run_to_its_end(self, how):
        done = harness.run([LEAVE.binary, how], "remote", self.server)
        self.assertEqual(done.code, 0, f"{done.stdout}{done.stderr}\n{self.server.log_text()}")
        self.expect_as_before()

    def test_a_fault(self):
        self.run_to_its_end("fault")

    def test_a_reset(self):
        self.run_to_its_end("reset")

    def test_a_fork_with_exit_handlers_in_the_child(self):
        self.run_to_its_end("fork")

    def test_an_exit_while_threads_wait(self):
        began = time.monotonic()
        self.run_to_its_end("exit")
        self.assertLess(time.monotonic() - began, 20)

    def test_a_kill_while_threads_wait(self):
        process = harness.popen([LEAVE.binary, "stay"], "remote", self.server)
        self.assertEqual(process.stdout.readline(), "working\n")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        self.expect_as_before()


class ForkTest(unittest.TestCase):
    def test_a_fork_while_another_thread_is_in_cuinit(self):
        program = harness.programs()["fork_in_init"]
        harness.build_program(program)
        with socket.create_server(("127.0.0.1", 0)) as silent, harness.Server() as server:
            never_answers = {"WARPLINE_SERVERS": f"127.0.0.1:{silent.getsockname()[1]}"}
            process = subprocess.Popen([program.binary], env=harness.environment_for("remote", server) | never_answers,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            silent.settimeout(20)
            connection, _ = silent.accept()
            with connection:
                out, _ = process.communicate("go on\n", timeout=60)
            self.assertEqual(out, "child: exit 0\n")


class OvertakenTest(unittest.TestCase):
    def test_launches_beyond_the_queue_hold_up_their_stream_only(self):
        short_queue = {"SOFTGPU_PROFILE": "generous,launch_queue=64"}
        with harness.Server(environment=short_queue) as server:
            for what, mode in itertools.product(("launches", "copies", "graphs"), ("direct", "remote")):
                done = harness.run([OVERTAKEN.binary, what], mode, server, extra=short_queue)
                self.assertIn("verified", done.stdout, f"{what}, {mode}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    unittest.main()
