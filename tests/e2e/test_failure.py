"""What goes wrong around a session: killed servers and workers, silent peers, drain (C1, C3, C5)."""

import os
import re
import signal
import time
import unittest

import harness

UNTIL_ERROR = harness.programs()["until_error"]
VECTOR_ADD = harness.programs()["vector_add"]
CONNECTION_LOST = 46  # cudaErrorDevicesUnavailable


def setUpModule():
    harness.build_program(UNTIL_ERROR)
    harness.build_program(VECTOR_ADD)


def working(server, **environment):
    """A program that has verified its first round on the server and goes on."""
    process = harness.popen([UNTIL_ERROR.binary], "remote", server, extra=environment)
    line = process.stdout.readline()
    if line != "working\n":
        process.kill()
        raise AssertionError(f"{line!r}; {process.communicate()}")
    return process


def children_of(server):
    """Processes below the supervisor: workers, and the door."""
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as children:
        return [int(p) for p in children.read().split()]


def started_as(server, role):
    """Of the children those that were started with this argument: what has just been forked has no role yet."""
    found = []
    for pid in children_of(server):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as command:
                if role in command.read():
                    found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def workers_of(server):
    return started_as(server, b"--worker-of=")


def signal_all(server, number):
    """To the supervisor and to all processes below, which have process groups of their own."""
    for pid in [*children_of(server), server.process.pid]:
        os.kill(pid, number)


class FailureTest(unittest.TestCase):
    def expect_error(self, process, seconds):
        began = time.monotonic()
        out, err = process.communicate(timeout=seconds)
        self.assertEqual(process.returncode, 0, f"exit code {process.returncode}: {out}{err}")
        self.assertRegex(out, rf"error {CONNECTION_LOST} after [0-9.]+ s, then {CONNECTION_LOST}")
        self.assertLess(time.monotonic() - began, seconds)
        return out, err

    def test_killed_server_is_an_error_within_10_s(self):
        with harness.Server() as server:
            process = working(server, WARPLINE_GRACE="2")
            signal_all(server, signal.SIGKILL)
            _, err = self.expect_error(process, 10)
            self.assertEqual(len([line for line in err.splitlines() if "lost the session" in line]), 1, err)

    def test_killed_supervisor_takes_its_workers_along(self):
        with harness.Server() as server:
            process = working(server, WARPLINE_GRACE="2")
            workers = workers_of(server)
            server.process.kill()
            self.expect_error(process, 10)
            self.assertTrue(harness.until(lambda: not any(os.path.exists(f"/proc/{w}") for w in workers), 10), workers)

    def test_killed_worker_harms_nobody_else(self):
        with harness.Server() as server:
            first = working(server)
            second = working(server)
            # The worker of the first session is the one whose socket leads to the first program.
            for victim in workers_of(server):
                if self.peer_of(first.pid, victim):
                    os.kill(victim, signal.SIGKILL)
                    break
            else:
                self.fail("no worker serves the first program")
            self.expect_error(first, 10)
            self.assertIsNone(second.poll())
            self.assertEqual(harness.run([VECTOR_ADD.binary], "remote", server).code, 0)
            self.assertIsNone(second.poll())
            second.kill()
            second.communicate()

    @staticmethod
    def peer_of(client, worker):
        """True if a TCP connection leads from one process to the other."""
        def ends(pid):
            inodes = set()
            for fd in os.listdir(f"/proc/{pid}/fd"):
                try:
                    match = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
                except OSError:
                    continue
                if match:
                    inodes.add(match.group(1))
            with open("/proc/net/tcp") as table:
                return {(f[1], f[2]) for f in (line.split() for line in table.readlines()[1:]) if f[9] in inodes}
        theirs = {(b, a) for a, b in ends(worker)}
        return bool(ends(client) & theirs)

    def test_silent_server_is_an_error(self):
        with harness.Server() as server:
            # Its machine acknowledges: a stopped server is waited for longer than one that cannot be reached.
            process = working(server, WARPLINE_HEARTBEAT_STOPPED_SECONDS="2", WARPLINE_HEARTBEAT_LOST_SECONDS="1", WARPLINE_GRACE="2")
            signal_all(server, signal.SIGSTOP)
            try:
                self.expect_error(process, 30)
            finally:
                signal_all(server, signal.SIGCONT)

    def test_c5_a_program_that_comes_while_the_door_is_stopped_is_served(self):
        """It is sent away when the door is replaced, and comes again."""
        with harness.Server() as server:
            runs = working(server)
            door, = started_as(server, b"--door-of=")
            os.kill(door, signal.SIGSTOP)
            done = harness.run([VECTOR_ADD.binary], "remote", server)
            ended = runs.poll()
            runs.kill()
            runs.communicate()
            self.assertIsNone(ended, "the session that ran has ended")
            self.assertEqual(done.code, 0, done.stderr + server.log_text())
            self.assertIn(f"the door (process {door}) has not answered for", server.log_text())
            self.assertNotIn(door, children_of(server))

    def test_killed_client_frees_its_worker(self):
        with harness.Server(flags=["--max-sessions", "1"]) as server:
            process = working(server)
            process.kill()
            process.communicate()
            self.assertTrue(harness.until(lambda: harness.run([VECTOR_ADD.binary], "remote", server).code == 0, 10), server.log_text())

    def test_drain_lets_sessions_end_and_takes_no_new_ones(self):
        with harness.Server(flags=["--drain-seconds", "2"]) as server:
            process = working(server)
            server.process.send_signal(signal.SIGTERM)
            refused = harness.run([VECTOR_ADD.binary], "remote", server)
            self.assertNotEqual(refused.code, 0)
            self.expect_error(process, 15)
            self.assertEqual(server.process.wait(timeout=15), 0, server.log_text())

    def test_idle_server_ends_at_once_on_sigterm(self):
        with harness.Server(flags=["--drain-seconds", "30"]) as server:
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=10), 0, server.log_text())
            self.assertLess(time.monotonic() - began, 5)

    def test_no_server_says_what_to_do(self):
        done = harness.run([VECTOR_ADD.binary], "remote", extra={"WARPLINE_SERVERS": ""})
        self.assertNotEqual(done.code, 0)
        self.assertIn("WARPLINE_SERVERS", done.stderr)
        self.assertIn("(100)", done.stderr)  # cudaErrorNoDevice


if __name__ == "__main__":
    unittest.main()
