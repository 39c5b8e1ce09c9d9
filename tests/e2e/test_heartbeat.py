"""Programs and workers that are stopped, or kept from writing, for longer than the heartbeat's limits (C1)."""

import array
import fcntl
import os
import re
import select
import signal
import subprocess
import termios
import unittest

import harness
import test_failure  # not its classes: the loader would run them again

PATIENT = harness.programs()["patient"]
UNTIL_ERROR = harness.programs()["until_error"]
STOPPED = "its machine acknowledges"  # told when the limit of a peer that is silent altogether has passed
BACK = "-> up: answers again"
PATIENCE = 60  # seconds for anything that has to happen; nothing takes them


def setUpModule():
    harness.build_program(PATIENT)
    harness.build_program(UNTIL_ERROR)


def wait_until(condition, what):
    if not harness.until(condition, PATIENCE):
        raise AssertionError(f"in vain: {what()}")


class Patient:
    """The program `patient rounds`, one round at a time."""

    def __init__(self, server, **environment):
        self.process = harness.popen([PATIENT.binary, "rounds"], "remote", server, extra=environment, stdin=subprocess.PIPE)
        self.rounds = 0

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.rounds += 1

    def answer(self):
        line = self.process.stdout.readline()
        if line != f"round {self.rounds}\n":
            self.process.kill()
            raise AssertionError(f"{line!r} {self.process.communicate()}")

    def read_error_until(self, pattern):
        """Lines of stderr up to one that matches."""
        return harness.read_until(self.process.stderr, pattern)

    def finish(self):
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0 and "verified" in out, (out, err)
        return err


class HeartbeatTest(unittest.TestCase):
    def wait_for_log(self, server, pattern):
        wait_until(lambda: re.search(pattern, server.log_text()), lambda: f"{pattern!r} in {server.log_text()}")

    def test_a_stopped_program_keeps_its_session(self):
        with harness.Server(flags=["--heartbeat-lost-seconds", "1"]) as server:
            patient = Patient(server)
            patient.ask()
            patient.answer()
            patient.process.send_signal(signal.SIGSTOP)
            self.wait_for_log(server, STOPPED)
            patient.ask()  # something to do when it goes on
            patient.process.send_signal(signal.SIGCONT)
            patient.answer()
            self.wait_for_log(server, BACK)
            patient.ask()
            patient.answer()
            patient.finish()
            self.wait_for_log(server, 'session end .*reason="the client has finished"')
            self.assertEqual(len(re.findall(STOPPED, server.log_text())), 1, server.log_text())

    def test_a_stopped_worker_keeps_its_session(self):
        with harness.Server() as server:
            patient = Patient(server, WARPLINE_HEARTBEAT_LOST_SECONDS="1")
            patient.ask()
            patient.answer()
            worker = next(w for w in test_failure.workers_of(server) if test_failure.FailureTest.peer_of(patient.process.pid, w))
            os.kill(worker, signal.SIGSTOP)
            patient.ask()  # a thread waits meanwhile
            patient.read_error_until(STOPPED)
            os.kill(worker, signal.SIGCONT)
            patient.answer()
            patient.read_error_until(BACK)
            patient.ask()
            patient.answer()
            patient.finish()

    def test_who_is_stopped_for_too_long_is_lost(self):
        flags = ["--heartbeat-lost-seconds", "1", "--heartbeat-stopped-seconds", "2", "--grace-seconds", "1"]
        with harness.Server(flags=flags) as server:
            patient = Patient(server)
            patient.ask()
            patient.answer()
            patient.process.send_signal(signal.SIGSTOP)
            try:
                self.wait_for_log(server, 'session end .*reason="the connection was lost .the other side has been silent')
            finally:
                patient.process.send_signal(signal.SIGCONT)
            patient.ask()
            _, err = patient.process.communicate(timeout=PATIENCE)
            self.assertEqual(patient.process.returncode, 1)
            self.assertIn("(46)", err)

    def test_a_full_pipe_does_not_stop_the_heartbeat(self):
        flags = ["--heartbeat-lost-seconds", "2", "--heartbeat-stopped-seconds", "2", "--grace-seconds", "1"]
        for same in (False, True):
            with self.subTest(stderr_too=same), harness.Server(flags=flags) as server:
                self.full_pipe(server, same)

    def full_pipe(self, server, stderr_too):
        answer_read, answer_write = os.pipe()
        out_read, out_write = os.pipe()
        room = fcntl.fcntl(out_write, fcntl.F_GETPIPE_SZ)

        process = subprocess.Popen([PATIENT.binary, "pipe", str(answer_write)], env=harness.environment_for("remote", server), stdin=subprocess.PIPE,
                                   stdout=out_write, stderr=out_write if stderr_too else subprocess.PIPE,
                                   pass_fds=[answer_write], text=True)
        self.addCleanup(process.kill)
        os.close(out_write)
        os.close(answer_write)
        with os.fdopen(out_read, "rb") as out, os.fdopen(answer_read) as answers:
            fill = array.array("i", [0])

            def full():
                fcntl.ioctl(out, termios.FIONREAD, fill)
                return fill[0] >= room
            wait_until(full, lambda: f"{fill[0]} of {room} bytes; {process.poll()}\n{server.log_text()}")
            process.stdin.write("full\n")
            process.stdin.flush()
            self.expect_answer(answers, "printed\n", server)
            # The limit has passed for sure when others, who fell silent after that, have been given up one after the other.
            for witness in range(1, 3):
                self.outlast(server, witness)
            self.assertIsNone(process.poll())
            text = out.read().decode()
        err = "" if stderr_too else process.stderr.read()
        self.assertEqual(process.wait(timeout=PATIENCE), 0, text[-2000:] + err + server.log_text())
        self.assertEqual(len(re.findall(r"(?m)^\d{4} 0123", text)), 8000)
        self.assertTrue(text.endswith("pipe: verified\n"), text[-200:])
        process.stdin.close()
        if not stderr_too:
            process.stderr.close()
            self.assertEqual(err, "")

    def expect_answer(self, answers, text, server):
        self.assertTrue(select.select([answers], [], [], PATIENCE)[0], f"no {text!r}\n{server.log_text()}")
        self.assertEqual(answers.readline(), text, server.log_text())

    def outlast(self, server, count):
        """Returns when a program that is stopped now has been given up."""
        witness = test_failure.working(server)
        witness.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: len(re.findall('session end .*reason="the connection was lost .the other side has been silent', server.log_text())) == count,
                       server.log_text)
        finally:
            witness.kill()
            witness.communicate()


if __name__ == "__main__":
    unittest.main()
